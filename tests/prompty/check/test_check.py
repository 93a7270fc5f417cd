"""`check`: everything that is wrong with a file at once, with the lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.prompty.check.check import check

from ..conftest import WriteFile


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SET", "value")
    monkeypatch.delenv("PERDURE_UNSET", raising=False)


def told(file: Path) -> list[str]:
    return [f"{it.line} {it.severity} {it.field or '-'}: {it.message}" for it in check(file)]


def test_nothing_to_say(write: WriteFile) -> None:
    text = (
        "---\nmodel: m\ninputs: {q: {kind: string}, t: {kind: thread}}\n---\nsystem:\n{{ t "
        "}}\nuser:\n{{ q }}\n"
    )
    assert check(write(text)) == []


def test_all_problems_are_told(write: WriteFile) -> None:
    file = write(
        """---
name: a
modle: m
model:
  apiType: chat
  connection:
    kind: key
    apiKey: literal
  options:
    temprature: 0.5
    reasoning: high
    topP: 1
inputs:
  - name: city
  - name: town
  - name: unused
tools:
  weather:
    parameters: {town: {kind: string}}
    bindings:
      place: citty
  own: {kind: own, connection: {endpont: x}, anything: 1}
---
sytem:
Hello {{ cty }}
{{ range(3) }}
tool:
"""
    )
    assert told(file) == [
        "3 warning modle: unknown property 'modle' has no effect and is kept as metadata (did you "
        "mean 'model'?)",
        "8 error model.connection.apiKey: is a secret itself, which every run would record: "
        "write `${env:NAME}` there and set NAME where the worker runs",
        "10 warning model.options.temprature: unknown property 'temprature' has no effect "
        "(did you mean 'temperature'?)",
        "11 warning model.options.reasoning: unknown property 'reasoning' has no effect: "
        "write it under `additionalProperties` to send it",
        "14 warning inputs[0]: the input 'city' is not used in the template: it has no effect",
        "15 warning inputs[1]: the input 'town' is not used in the template: it has no effect",
        "16 warning inputs[2]: the input 'unused' is not used in the template: it has no effect",
        "21 error tools.weather.bindings.place: the input 'citty' is not declared (did you mean "
        "'city'?)",
        "21 warning tools.weather.bindings.place: the tool has no parameter 'place'",
        "22 warning tools.own.connection.endpont: unknown property 'endpont' has no effect (did "
        "you mean 'endpoint'?)",
        "24 warning -: no role marker: the whole text becomes one system message",
        "24 warning -: 'sytem:' is not a role marker (did you mean 'system'?)",
        "25 warning -: the variable 'cty' is not a declared input (did you mean 'city'?)",
        "27 warning -: 'tool:' is not a role marker",
    ]


def test_all_errors_of_types_are_told(write: WriteFile) -> None:
    file = write(
        "---\nname: 5\nmodel:\n  connection: {kind: keyy}\n  options: {topP: high}\n"
        "inputs:\n  - name: city\n  - name: city\n---\nuser:\n{{ city }}\n"
    )
    assert told(file) == [
        "2 error name: expected a string, got 5",
        "4 error model.connection.kind: expected 'key', 'reference', 'remote', 'anonymous', "
        "'foundry' or 'oauth', got 'keyy' (did you mean 'key'?)",
        "5 error model.options.topP: expected a number, got 'high'",
        "8 error inputs[1].name: the name 'city' is used twice",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "---\nname: [x\n---\n", "3 error -: Invalid frontmatter YAML: did not find", id="YAML"
        ),
        pytest.param(
            "---\nname: x\n",
            "1 error -: Invalid frontmatter: the opening delimiter",
            id="no closer",
        ),
        pytest.param(
            "---\n- a\n---\n", "2 error -: Invalid frontmatter: expected a map", id="a list"
        ),
        pytest.param(
            "---\nmodel: m\n---\nuser:\n\n{{ x",
            "6 error -: Template syntax error: unexpected end",
            id="template",
        ),
        pytest.param(
            "---\nmodel: m\n---\n\n\nuser:\n{{ 1|x }}",
            "7 error -: Template syntax error: No filter named 'x'.",
            id="filter",
        ),
        pytest.param(
            "---\nname: x\n---\nuser:\n", "2 warning -: no `model` is named", id="no model"
        ),
        pytest.param(
            "---\nmodel: m\n---\n", "2 warning -: no instructions: the body is empty", id="no body"
        ),
        pytest.param(
            "---\nmodel: m\ntemplate: jinja2\n---\nuser:\n",
            "3 error template: Invalid template format",
            id="template as text",
        ),
        pytest.param(
            "---\nmodel: m\ntemplate: {format: mustache}\n---\nuser:\n",
            "3 error template.format.kind: No renderer registered for key: mustache",
            id="renderer",
        ),
        pytest.param(
            "---\nmodel: m\ntemplate: {parser: own}\n---\nuser:\n",
            "3 error template.parser.kind: No parser registered for key: own",
            id="parser",
        ),
        pytest.param(
            "---\nmodel: ${file:none.json}\n---\nuser:\n",
            "2 error model: Referenced file not found",
            id="missing file",
        ),
        pytest.param(
            "---\nmodel: ${file:../x.json}\n---\nuser:\n",
            "2 error model: ../x.json resolves outside",
            id="outside",
        ),
        pytest.param(
            "---\nmodel:\n  options: {seed: '${env:PERDURE_UNSET}'}\n---\nuser:\n",
            "3 warning model.options.seed: Environment variable 'PERDURE_UNSET' not set",
            id="unset variable",
        ),
        pytest.param(
            "---\nmodel:\n  connection: {endpoint: 'https://${env:PERDURE_SET}/v1'}\n---\nuser:\n",
            "3 warning model.connection.endpoint: ${env:PERDURE_SET} stays as it is: "
            "only a whole string is a reference",
            id="a reference in a string",
        ),
        pytest.param(
            "---\nmodel: m\ninputs: {t: {kind: thread}}\n---\nuser:\n",
            "3 warning inputs.t: the input 't' is not used in the template: its messages come last",
            id="a forgotten thread",
        ),
        pytest.param(
            "---\nmodel: m\nmetadata:\n  perdure:\n    maxIteration: 5\n---\nuser:\n",
            "5 error metadata.perdure.maxIteration: unknown setting 'maxIteration' (did you mean "
            "'maxIterations'?)",
            id="a misspelt setting",
        ),
        pytest.param(
            "---\nmodel: m\nmetadata:\n  octopus:\n    MaxToolIterations: many\n---\nuser:\n",
            "5 error metadata.octopus.MaxToolIterations: 'many': input should be a valid integer",
            id="a setting of another type",
        ),
        pytest.param(
            "---\nmodel: m\nmetadata:\n  kaos:\n    memory: {maxSessions: 9}\n---\nuser:\n",
            "5 warning metadata.kaos.memory.maxSessions: has no effect: a session keeps all of "
            "its events",
            id="a setting without an effect",
        ),
        pytest.param(
            "---\nmodel: m\nmetadata:\n  perdure: {maxIterations: "
            "'${env:PERDURE_UNSET}'}\n---\nuser:\n",
            "4 warning metadata.perdure.maxIterations: Environment variable 'PERDURE_UNSET' not "
            "set",
            id="an unset setting",
        ),
    ],
)
def test_single_problems(write: WriteFile, text: str, problem: str) -> None:
    (only,) = told(write(text))
    assert only.startswith(problem)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "---\nmodel: m\ninputs: {u: x}\ntools: {f: {parameters: {p: {kind: float}}, bindings: "
            "{p: u}}}\n---\nuser:",
            id="a bound input is used",
        ),
        pytest.param(
            "---\nmodel:\n  connection: {apiKey: '${env:PERDURE_SET}'}\n---\nuser:\n",
            id="a set variable",
        ),
        pytest.param(
            "---\nmodel: m\nmetadata: {password: x, a: {b: c}}\n---\nuser:\n", id="metadata is free"
        ),
        pytest.param(
            "---\nmodel: m\ntools: {m: {kind: mcp, approvalMode: never}}\n---\nuser:\n",
            id="shorthands",
        ),
        pytest.param("---\nmodel: m\n---\nuser:\nExample:\nNote:\n", id="other words with a colon"),
        pytest.param(
            "---\nmodel: m\n---\nuser:\n{% for i in range(2) %}{{ loop.index }}{{ i }}{% endfor %}",
            id="builtins",
        ),
    ],
)
def test_no_false_alarm(write: WriteFile, text: str) -> None:
    assert told(write(text)) == []
