"""A model as one text, and other models in its place: what they share."""

from __future__ import annotations

import os

import pytest

import perdure
from perdure import LoadError
from perdure.agents import BUILT_IN_PROVIDERS
from perdure.prompty.portable import agent_to_dict, portable
from perdure.providers.registry import PROVIDERS


@pytest.mark.parametrize(
    ("written", "provider", "id"),
    [
        ("gpt-5", None, "gpt-5"),
        ("openai/gpt-5", "openai", "gpt-5"),
        ("anthropic/claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("azure/my/deployment", "azure", "my/deployment"),
        ("meta-llama/Llama-3.3-70B", None, "meta-llama/Llama-3.3-70B"),
    ],
)
def test_a_text_names_provider_and_model(written: str, provider: str | None, id: str) -> None:
    model = perdure.load_dict({"model": written, "instructions": ""}).model
    assert model is not None
    assert (model.provider, model.id) == (provider, id)


def test_the_providers_that_names_begin_with_are_all() -> None:
    assert sorted(PROVIDERS) == sorted(BUILT_IN_PROVIDERS)


MODEL = {
    "id": "gpt-5",
    "apiType": "responses",
    "connection": {"kind": "key", "apiKey": "${env:PERDURE_TEST_KEY}"},
    "options": {"temperature": 0, "additionalProperties": {"reasoning": {"effort": "low"}}},
    "fallback": [
        "gpt-5-mini",
        "anthropic/claude",
        {"id": "local", "connection": {"endpoint": "http://127.0.0.1:1/v1"}},
    ],
}


def test_other_models_share_what_they_do_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TEST_KEY", "sk-secret-of-the-test")
    agent = perdure.load_dict({"model": MODEL, "instructions": ""})
    main, same, other, local = agent.models
    assert [model.name for model in agent.models] == [
        "openai/gpt-5",
        "openai/gpt-5-mini",
        "anthropic/claude",
        "openai/local",
    ]
    assert (same.api_type, same.connection, same.options) == (
        "responses",
        main.connection,
        main.options,
    )
    assert (other.api_type, other.connection) == ("chat", None), (
        "another provider gets neither key nor address"
    )
    assert other.options is not None
    assert (other.options.temperature, other.options.additional_properties) == (0, None)
    assert local.connection is not None
    assert local.connection.api_key is None, "the key is for the main model's address"
    assert "sk-secret" not in str(agent_to_dict(portable(agent)))
    assert agent.with_fallback(2).model == other
    assert os.environ["PERDURE_TEST_KEY"] == agent.with_fallback(1).models[0].connection.api_key  # type: ignore[union-attr]


def test_a_fallback_has_none_of_its_own() -> None:
    with pytest.raises(LoadError, match="write all models into one list"):
        perdure.load_dict(
            {"model": {"id": "a", "fallback": [{"id": "b", "fallback": ["c"]}]}, "instructions": ""}
        )
