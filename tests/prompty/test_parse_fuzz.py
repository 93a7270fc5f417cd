"""Properties that hold for any text: role boundaries are the template's, and only documented errors
are raised.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perdure.agents import Agent
from perdure.errors import LoadError, RenderError
from perdure.messages import Message
from perdure.prompty.check.check import check
from perdure.prompty.load import load, load_dict
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
