"""References to credentials in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.prompty.check.check import check
from perdure.prompty.load import load_dict
from perdure.prompty.portable import agent_to_dict, credentials_in, portable, resolve_environment
from perdure.redaction import redact, redactor

SECRET = "a secret, even to its friends"
PLACES: dict[str, Any] = {
    "name": "placed",
    "description": "${credential:not here}",
    "model": {"id": "m", "connection": {"kind": "key", "apiKey": "${credential:model}"}},
    "tools": [
        {
            "name": "web",
            "kind": "mcp",
            "connection": {"kind": "key", "endpoint": "https://web.example"},
            "options": {
                "headers": {"X-Team": "${credential:team}", "X-Key": "${credential:model}"}
            },
        },
        {
            "name": "own",
            "kind": "own",
            "connection": {"kind": "oauth", "clientSecret": "${credential:own id}"},
        },
        {"name": "plain", "kind": "function", "description": "${credential:not here}"},
    ],
}


def test_where_credentials_are_named() -> None:
    agent = portable(load_dict(PLACES))
    found = {"": {"model"}, "web": {"team", "model"}, "own": {"own id"}}
    assert credentials_in(agent) == found
    assert credentials_in(resolve_environment(agent)) == found
    travelled = portable(resolve_environment(agent, {"model": SECRET}))
    assert travelled.model_dump() == agent.model_dump()


def test_only_what_is_given_is_put_in_and_no_more_is_said() -> None:
    agent = resolve_environment(portable(load_dict(PLACES)), {"model": SECRET, "not here": SECRET})
    assert credentials_in(agent) == {"web": {"team"}, "own": {"own id"}}
    assert agent.model
    assert agent.model.connection
    assert agent.model.connection.api_key == SECRET
    assert agent.description == "${credential:not here}"
    assert redactor().text(f"<{SECRET}>") == "<${credential:model}>"
    assert redact("it is ${credential:team}", agent) == "it is ${credential:team}"
    assert SECRET not in repr(agent_to_dict(agent))


def test_a_file_is_told_of_a_reference_that_nothing_resolves(tmp_path: Path) -> None:
    file = tmp_path / "a.prompty"
    file.write_text(
        "---\nname: a\nmodel: m\ndescription: ${credential:x}\nmetadata:\n  k: a ${credential:y} "
        "b\n---\nsystem:\nHi"
    )
    texts = [problem.message for problem in check(file)]
    assert texts == [
        "${credential:x} stays as it is: credentials are for connections and options",
        "${credential:y} stays as it is: only a whole string is a reference",
    ]
