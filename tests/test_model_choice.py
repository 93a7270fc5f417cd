"""A model that a command or a call names, in the place of the file's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure import ConfigurationError, load_dict
from perdure.json_types import JsonObject
from perdure.model_choice import model_choice, with_other_model
from perdure.testing import says

from .support.agents import Scripted
from .support.command_line import Cli

WITHOUT_MODEL = """---
name: judge
model: {api: chat, parameters: {temperature: 0}}
inputs: {q: {type: List}}
---
user:
{{ q }}
"""
UNSET = WITHOUT_MODEL.replace(
    "param", "configuration: {azure_deployment: '${env:PERDURE_UNSET_NAME}'}, param"
)
KEY = {"kind": "key", "endpoint": "http://a/v1", "apiKey": "${env:PERDURE_KEY_OF_A}"}
OPTIONS = {"temperature": 1, "additionalProperties": {"store": True}}


def changed(model: Any, *choice: str | None) -> JsonObject:
    agent = load_dict({"model": model, "instructions": "user:\nhi"}, defer_environment=True)
    other = with_other_model(agent, model_choice(*choice)).model
    assert other is not None
    return other.model_dump(by_alias=True, exclude_none=True)


@pytest.mark.parametrize(
    ("choice", "provider", "id"),
    [
        (("gpt-5", None), "openai", "gpt-5"),
        (("openai:gpt-5", None), "openai", "gpt-5"),
        (("anthropic/claude-x", None), "anthropic", "claude-x"),
        (("anthropic/claude-x", "openai"), "openai", "anthropic/claude-x"),
        (("azure/mine", "azure"), "azure", "mine"),
        ((None, "azure"), "azure", "m"),
    ],
)
def test_names(choice: tuple[str | None, str | None], provider: str, id: str) -> None:
    model = changed({"id": "m", "provider": "openai"}, *choice)
    assert (model["provider"], model["id"]) == (provider, id)


def test_the_same_provider_keeps_its_connection_and_options() -> None:
    model = {
        "id": "m",
        "apiType": "responses",
        "connection": KEY,
        "options": OPTIONS,
        "fallback": ["n"],
    }
    other = changed(model, "openai/o")
    assert (other["id"], other["apiType"], other["connection"]) == ("o", "responses", KEY)
    assert (other["options"], [each["id"] for each in other["fallback"]]) == (OPTIONS, ["n"])
    assert changed(model, None, None, "http://b/v1")["connection"] == {
        **KEY,
        "endpoint": "http://b/v1",
    }


def test_another_provider_gets_no_key_and_no_options_of_the_first() -> None:
    other = changed(
        {"id": "m", "apiType": "responses", "connection": KEY, "options": OPTIONS}, "anthropic/c"
    )
    assert other == {
        "id": "c",
        "provider": "anthropic",
        "apiType": "chat",
        "options": {"temperature": 1.0},
    }


@pytest.mark.parametrize("choice", [("openai/",), ("",), ("m", " "), ("m", None, "localhost:8000")])
def test_what_names_nothing_is_refused(choice: tuple[str | None, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"(model|provider|endpoint) '[^']*': expected"):
        model_choice(*choice)


@pytest.mark.parametrize("text", [WITHOUT_MODEL, UNSET])
async def test_commands(text: str, embedded: Cli, scripted: Scripted, tmp_path: Path) -> None:
    """Also where the file's own model can't be known here."""
    file, model = tmp_path / "judge.prompty", scripted([says("good")])
    file.write_text(text)
    embedded.environment["OPENAI_API_KEY"] = "key-of-the-test"
    given = (str(file), "--model", "openai/any", "--endpoint", model.openai_endpoint, "-i", "q=[1]")
    ended = await embedded("run", *given)
    assert (ended.code, ended.stdout) == (0, "good\n"), ended.stderr
    shown = await embedded("validate", *given, "--show-request")
    assert json.loads(shown.stdout)["model"] == "any"
    alone = await embedded("validate", str(file))
    assert (
        "model.id: is missing" if text == WITHOUT_MODEL else "PERDURE_UNSET_NAME"
    ) in alone.stderr
    misspelt = await embedded("validate", str(file), "--model", "m", "--provider", "opnai")
    assert "did you mean 'openai'?" in misspelt.stderr
