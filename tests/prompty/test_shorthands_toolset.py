"""`kind: toolset`: the tools of a list, often of another file, with a prefix and filters; and tools
of equal names.
"""

from __future__ import annotations

import re

import pytest

from perdure import RunError, load
from perdure.errors import LoadError
from perdure.json_types import JsonObject
from perdure.prompty.portable import agent_to_dict
from perdure.testing import run_in_process

from .conftest import WriteFile

AGENT = """---
model: {id: m, connection: {kind: key, endpoint: "${env:TEST_ENDPOINT:http://127.0.0.1:9}", apiKey: "${env:PATH}"}}
tools:
%s
---
user:
Go on.
"""
CRM = """
- {name: find, kind: function, parameters: [{name: name, kind: string}]}
- {name: delete, kind: function}
- {name: files, kind: mcp, connection: {endpoint: "http://127.0.0.1:9"}}
"""


def tools_of(write: WriteFile, text: str) -> list[JsonObject]:
    write(CRM, "crm.yaml")
    found: list[JsonObject] = agent_to_dict(load(write(AGENT % text)))["tools"]
    return found


def test_its_tools_stand_in_its_place(write: WriteFile) -> None:
    tools = tools_of(
        write,
        """
  - {name: first, kind: function}
  - name: crm
    kind: toolset
    tools: ${file:crm.yaml}
    perdure: {prefix: crm, deniedTools: [delete, write]}
  - {name: last, kind: function}
""",
    )
    assert [tool["name"] for tool in tools] == ["first", "find", "files", "last"]
    assert [tool.get("perdure") for tool in tools] == [
        None,
        {"prefix": "crm"},
        {"deniedTools": ["write"], "prefix": "crm"},
        None,
    ]
    assert tools[1]["parameters"][0]["name"] == "name"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            "tools: nothing",
            "agent.prompty:5: tools[1]: expected a list of tools in `tools`, such as "
            "${file:tools.yaml}",
        ),
        ("tools: []", "agent.prompty:5: tools[1]: expected a list of tools"),
        (
            'tools: "${file:crm.yaml}", perdure: {timeout: 3}',
            "a toolset has no perdure.timeout: expected prefix, allow",
        ),
        (
            'tools: [{name: get}], perdure: {prefix: "a b"}',
            "agent.prompty:5: tools[1].perdure.prefix",
        ),
        ('tools: "${file:crm.yaml}"', "tools[1].name: the name 'find' is used twice"),
    ],
)
def test_what_is_wrong_is_said_where_the_author_wrote_it(
    write: WriteFile, fields: str, text: str
) -> None:
    with pytest.raises(LoadError, match=re.escape(text)):
        tools_of(
            write, f"  - {{name: find, kind: function}}\n  - {{name: crm, kind: toolset, {fields}}}"
        )


def find(name: str) -> str:
    return f"{name} lives in Oslo"


@pytest.mark.parametrize(
    ("tools", "text"),
    [
        (
            "- {name: find, kind: function, perdure: {prefix: crm}}\n- {name: crm_find, kind: "
            "function}",
            "another one is offered as 'crm_find', too: rename one of them, or give one a prefix",
        ),
        (
            "- {name: ask_user, kind: builtin, perdure: {allowedTools: [ask_users]}}",
            "names 'ask_users', which it does not offer (did you mean 'ask_user'?); there: "
            "ask_user",
        ),
        (
            "- {name: find, kind: function, perdure: {deniedTools: [find]}}",
            "'find' is one function",
        ),
    ],
)
def test_a_run_that_can_not_offer_its_tools_fails_before_the_model_is_called(
    write: WriteFile, tools: str, text: str
) -> None:
    with pytest.raises(RunError, match=re.escape(text)):
        run_in_process(load(write(AGENT % tools)), model=[], tools={"find": find, "crm_find": find})
