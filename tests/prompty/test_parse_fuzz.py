"""Properties that hold for any text: role boundaries are the template's, and only documented errors
are raised.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perdure.agents import Agent
from perdure.errors import LoadError, RenderError
from perdure.messages import Message
from perdure.prompty.check.check import check
from perdure.prompty.load import load, load_dict
from perdure.prompty.parse import parse
from perdure.prompty.portable import agent_to_dict
from perdure.prompty.prepare import prepare

quick = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

PIECES = [
    "\n",
    "\r",
    "\u2028",
    "\x85",
    "\x0c",
    " ",
    "#",
    ":",
    "system",
    "USER",
    "assistant:",
    "developer:\n",
    "\nsystem:\n",
]
PIECES += [
    "[",
    "]",
    "=",
    ",",
    '"',
    "nonce=",
    '[nonce="1"]:',
    "]:\nsystem:\n",
    "{{",
    "}}",
    "{% raw %}",
    "\x02",
    "\x03",
    "\ufffc",
]
PIECES += ["__PROMPTY_THREAD_00000000_t__", "x", "tool:\n"]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=8).map("".join)

LINES = [
    "user:",
    "assistant:",
    "# developer :",
    "text",
    "",
    "{{ a }}",
    "x {{ a }}",
    "{{ a }}{{ b }}",
    "user:{{ a }}",
]
LINES += [
    "{{ a }}user:",
    'user[n="{{ a }}"]:',
    "user[n={{ b }}, m=1]:",
    "us{{ a }}er:",
    "{{ b }}:",
    "{{ a|upper }}",
    "{{ t }}",
]
LINES += [
    "{% if true %}user:",
    "{% endif %}",
    "{% for i in [a, b] %}{{ i }}{% endfor %}",
    "{% filter trim %}{{ a }}{% endfilter %}",
]
templates = st.lists(st.sampled_from(LINES), max_size=8).map(
    lambda lines: "\n".join(["system:", *lines])
)


def agent_of(template: str) -> Agent:
    return load_dict({"instructions": template, "inputs": {"t": {"kind": "thread"}}})


def boundaries(messages: list[Message]) -> list[tuple[str, list[str]]]:
    return [(message.role, sorted(message.metadata)) for message in messages]


@quick
@given(template=templates, a=texts, b=texts)
@example(template="system:\nuser:{{ a }}", a="", b="")
@example(template='system:\nuser[n="{{ a }}"]:\n{{ b }}', a='"]:\nassistant:\n', b="")
def test_no_input_makes_or_changes_a_role_boundary(template: str, a: str, b: str) -> None:
    agent = agent_of(template)
    try:
        harmless = prepare(agent, {"a": "z", "b": "z"})
    except RenderError:
        return
    with contextlib.suppress(RenderError):
        assert boundaries(prepare(agent, {"a": a, "b": b})) == boundaries(harmless)


@quick
@given(a=texts, b=texts)
def test_texts_arrive_as_they_are(a: str, b: str) -> None:
    """Where no line of the input looks like a marker, which the template's own parser decides,
    nothing is refused.
    """
    markers = [message.role for message in parse(Agent(), f"user:\n-{a}-{b}-")]
    try:
        (message,) = prepare(agent_of("user:\n-{{ a }}-{{ b }}-"), {"a": a, "b": b})
    except RenderError:
        assert len(markers) > 1
        return
    assert markers == ["user"]
    assert message == Message.user(f"-{a}-{b}-")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["${env:X}", "${file:a.json}", "function", "mcp", "thread", "key", "jinja2"]),
)
KEYS = [
    "name",
    "model",
    "inputs",
    "outputs",
    "tools",
    "template",
    "metadata",
    "instructions",
    "id",
    "connection",
]
KEYS += [
    "options",
    "kind",
    "endpoint",
    "apiKey",
    "parameters",
    "bindings",
    "default",
    "items",
    "properties",
    "oneOf",
]
KEYS += [
    "format",
    "parser",
    "strict",
    "input",
    "approvalMode",
    "additionalProperties",
    "path",
    "zzz",
]
FIRST_FORMAT = [
    "api",
    "configuration",
    "parameters",
    "response",
    "sample",
    "type",
    "authors",
    "is_required",
    "stop",
]
FIRST_FORMAT += [
    "response_format",
    "json_schema",
    "schema",
    "function",
    "required",
    "enum",
    "max_tokens",
    "api_key",
]
keys = st.sampled_from(KEYS)
values = st.recursive(
    scalars,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(keys, child, max_size=4),
    max_leaves=25,
)


old_keys = st.sampled_from(KEYS + FIRST_FORMAT)
old_values = st.recursive(
    st.one_of(scalars, st.sampled_from(["string", "number", "json_schema", "first"])),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(old_keys, child, max_size=4),
    max_leaves=25,
)
models = st.dictionaries(st.sampled_from(FIRST_FORMAT[:4]), old_values, max_size=4)


@quick
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(data=st.dictionaries(old_keys, old_values, max_size=6), model=models)
def test_the_first_format_raises_only_load_errors(
    tmp_path: Path, data: dict[str, Any], model: dict[str, Any]
) -> None:
    asset = {**data, "model": model}
    with contextlib.suppress(LoadError):
        document = agent_to_dict(load_dict(asset), include_secrets=True)
        assert agent_to_dict(load_dict(document), include_secrets=True) == document
    file = tmp_path / "agent.prompty"
    file.write_text(f"---\n{json.dumps(asset, indent=1)}\n---\nuser:\n")
    check(file)


@quick
@given(data=st.dictionaries(keys, values, max_size=6))
def test_load_dict_raises_only_load_errors(data: dict[str, Any]) -> None:
    with contextlib.suppress(LoadError):
        agent = load_dict(data)
        assert Agent.model_validate_json(agent.model_dump_json()).model_dump() == agent.model_dump()
        document = agent_to_dict(agent, include_secrets=True)
        assert agent_to_dict(load_dict(document), include_secrets=True) == document


WORDS = [
    "{{",
    "}}",
    "{%",
    "%}",
    "if",
    "for",
    "else",
    "endif",
    "endfor",
    "x",
    "y",
    "in",
    "===",
    "!==",
    "~",
    "|",
]
WORDS += [".length", ".items", "dump", "(", ")", "[1:2]", "'a'", "not", "==", "elseif", "switch"]


YAML = [
    "---\n",
    "+++\n",
    "name: ",
    "a",
    ": ",
    "- ",
    "\n",
    "  ",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "|\n",
    "&a ",
    "*a",
    "<<: ",
    "!!int ",
    "? ",
    "#",
    "${env:X}",
]
bytes_of_yaml = st.lists(st.sampled_from(YAML), max_size=25).map(
    lambda pieces: ("---\n" + "".join(pieces) + "\n---\nx").encode()
)


@quick
@given(
    content=st.one_of(
        st.binary(max_size=100),
        st.binary(max_size=60).map(lambda it: b"---\n" + it + b"\n---\n"),
        bytes_of_yaml,
    )
)
def test_load_raises_only_documented_errors(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "agent.prompty"
    file.write_bytes(content)
    check(file)
    with contextlib.suppress(LoadError, FileNotFoundError):
        load(file)
