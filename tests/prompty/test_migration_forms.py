"""Forms of declarations and models that published `.prompty` files have, each with the prompt that
it must give.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, prepare
from perdure.prompty.check.check import check
from perdure.prompty.load import load

MODEL = "model: {id: m}\n"
BODY = "---\nsystem:\n[{{ x }}]\nuser:\ngo\n"

DECLARATIONS: dict[str, tuple[str, Any, bool]] = {
    "{type: List}": ("array", None, False),
    "{type: list, default: [1, 2]}": ("array", [1, 2], False),
    "{type: 'List[str]'}": ("array", None, False),
    "{type: STRING}": ("string", None, False),
    "{type: Dict, sample: {a: 1}}": ("object", {"a": 1}, False),
    "{type: Double, default: 1.5}": ("float", 1.5, False),
    "{type: Bool, default: false}": ("boolean", False, False),
    "{type: string, optional: true, default: y}": ("string", "y", False),
    "{type: string, optional: false}": ("string", None, True),
    "{type: string, is_optional: true}": ("string", None, False),
    "{Type: String, Optional: True, Default: y}": ("string", "y", False),
    "{type: string, isRequired: true, description: d}": ("string", None, True),
    "{type: string, required: true}": ("string", None, True),
    "{type: string, enum: [a, b], default: a}": ("string", "a", False),
    "{type: string, is_chat_input: true}": ("string", None, False),
    "{kind: List}": ("array", None, False),
    "{kind: String, required: true}": ("string", None, True),
}


def quietly(file: Path) -> Agent:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return load(file)


@pytest.mark.parametrize(("written", "means"), DECLARATIONS.items())
@pytest.mark.parametrize("form", ["inputs: {{x: {0}}}\n", "inputs:\n- {{name: x, {1}}}\n"])
def test_declarations_are_no_values(
    form: str, written: str, means: tuple[str, Any, bool], write: Callable[[str], Path]
) -> None:
    """In a map by name, and in a list. No word of the declaration reaches the prompt."""
    file = write(f"---\n{MODEL}{form.format(written, written[1:-1])}{BODY}")
    agent = quietly(file)
    (declared,) = agent.inputs or []
    assert (declared.kind, declared.default, declared.required) == means
    assert not [
        problem
        for problem in check(file)
        if "kind" in problem.message and "first format" not in problem.message
    ]
    assert prepare(agent, {"x": "given"})[0].text == "[given]"
    if not declared.required and declared.default is None:
        assert prepare(agent, {})[0].text == "[]"


def test_what_values_are_made_of_may_be_a_schema(write: Callable[[str], Path]) -> None:
    person = (
        "{type: object, properties: {age: {type: integer}, of: {type: array, items: {type: "
        "string}}}, required: [age]}"
    )
    file = write(
        f"---\n{MODEL}inputs: {{x: {{type: List, items: {person}}}, y: "
        f"{person}}}\n---\nuser:\n{{{{x}}}}{{{{y}}}}"
    )
    many, one = quietly(file).inputs or []
    assert many.items is not None
    for each in (many.items, one):
        age, of = each.properties or []
        assert (age.kind, age.required, of.kind, of.required) == ("integer", True, "array", False)
        assert of.items is not None
        assert of.items.kind == "string"
    assert not one.required


MODELS = {
    "{configuration: {type: openai, model: m, base_url: 'http://h/v1'}}": (
        "openai",
        "m",
        "http://h/v1",
    ),
    "{configuration: {type: Azure-OpenAI, deployment: m, api_base: 'http://h'}}": (
        "azure",
        "m",
        "http://h",
    ),
    "{configuration: {azure_deployment: m, azure_endpoint: 'http://h'}}": (
        "azure",
        "m",
        "http://h",
    ),
    "{id: 'openai:gpt-5'}": ("openai", "gpt-5", None),
    "{id: 'anthropic:claude-x', provider: anthropic}": ("anthropic", "claude-x", None),
    "openai:gpt-5": ("openai", "gpt-5", None),
    "anthropic/claude-x": ("anthropic", "claude-x", None),
    "{id: 'qwen3:8b'}": (None, "qwen3:8b", None),
    "qwen3:8b": (None, "qwen3:8b", None),
    "'openai/ft:gpt-4o:me'": ("openai", "ft:gpt-4o:me", None),
    "{id: 'ft:gpt-4o:me'}": (None, "ft:gpt-4o:me", None),
    "{id: 'anthropic:x', provider: openai}": ("openai", "anthropic:x", None),
    "{id: 'openai/gpt-oss:20b'}": (None, "openai/gpt-oss:20b", None),
}


@pytest.mark.parametrize(("written", "means"), MODELS.items())
def test_models(
    written: str, means: tuple[str | None, str, str | None], write: Callable[[str], Path]
) -> None:
    model = quietly(write(f"---\nmodel: {written}\n---\nuser:\ngo\n")).model
    assert model is not None
    assert (model.provider, model.id, model.connection and model.connection.endpoint) == means
