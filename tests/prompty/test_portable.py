"""What of an agent travels, and how secrets are found again where it is used."""

from __future__ import annotations

import pytest

from perdure.agents import Agent
from perdure.errors import ConfigurationError, LoadError
from perdure.json_types import JsonObject
from perdure.prompty.load import load_dict
from perdure.prompty.portable import agent_to_dict, portable, resolve_environment

SECRET = "sk-secret-value"
KEY = "${env:PERDURE_KEY}"
URL = "${env:PERDURE_URL:https://default}"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEY", SECRET)
    monkeypatch.setenv("PERDURE_MODEL", "model-1")
    monkeypatch.delenv("PERDURE_URL", raising=False)


DATA: JsonObject = {
    "name": "a",
    "model": {
        "id": "${env:PERDURE_MODEL}",
        "connection": {"kind": "key", "endpoint": URL, "apiKey": KEY, "own": {"deep": [KEY]}},
        "options": {
            "temperature": 0.5,
            "additionalProperties": {"headers": {"Authorization": KEY}, "user": KEY},
        },
    },
    "tools": {
        "m": {
            "kind": "mcp",
            "connection": {"kind": "oauth", "clientSecret": KEY, "tokenUrl": "https://t"},
        },
        "c": {"kind": "own", "options": {"region": KEY}, "accessToken": KEY},
    },
    "metadata": {"token": KEY, "tokens": 5},
}


def recorded(agent: Agent) -> str:
    """The agent as a payload."""
    return agent.model_dump_json()


def fields(agent: Agent) -> JsonObject:
    return agent.model_dump()


def travelled(agent: Agent) -> Agent:
    return Agent.model_validate_json(recorded(portable(agent)))


def test_no_secret_travels_and_the_worker_finds_it_again() -> None:
    agent = load_dict(DATA)
    assert SECRET in recorded(agent)
    assert SECRET not in recorded(portable(agent))
    assert fields(resolve_environment(travelled(agent))) == fields(agent)


def test_the_worker_lacks_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = travelled(load_dict({"model": {"id": "m", "connection": {"apiKey": KEY}}}))
    monkeypatch.delenv("PERDURE_KEY")
    with pytest.raises(ConfigurationError) as caught:
        resolve_environment(agent)
    assert str(caught.value) == (
        "Environment variable 'PERDURE_KEY' is not set on the worker (model.connection.apiKey): "
        "set it and start the worker again"
    )


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"model": {"connection": {"apiKey": SECRET}}}, "model.connection.apiKey"),
        (
            {"model": {"connection": {"kind": "oauth", "clientSecret": SECRET}}},
            "model.connection.clientSecret",
        ),
        ({"model": {"connection": {"api_key": SECRET}}}, "model.connection.api_key"),
        (
            {"model": {"connection": {"endpoint": "https://user:pass@host/v1"}}},
            "model.connection.endpoint",
        ),
        (
            {"model": {"options": {"additionalProperties": {"h": {"Cookie": SECRET}}}}},
            "model.options.additionalProperties.h.Cookie",
        ),
        (
            {"tools": {"t": {"kind": "mcp", "connection": {"apiKey": SECRET}}}},
            "tools[0].connection.apiKey",
        ),
        ({"tools": {"t": {"kind": "own", "password": SECRET}}}, "tools[0].password"),
        (
            {"model": {"connection": {"endpoint": f"https://{SECRET}@host/v1"}}},
            "model.connection.endpoint",
        ),
        (
            {"model": {"connection": {"endpoint": f"https://h/v1?api_key={SECRET}"}}},
            "model.connection.endpoint",
        ),
        (
            {"model": {"connection": {"endpoint": f"https://h/v1?key={SECRET}"}}},
            "model.connection.endpoint",
        ),
        (
            {"tools": {"t": {"kind": "own", "options": {"args": ["--api-key", SECRET]}}}},
            "tools[0].options.args[1]",
        ),
        (
            {"tools": {"t": {"kind": "own", "options": {"env": [f"A_TOKEN={SECRET}-1"]}}}},
            "tools[0].options.env[0]",
        ),
        (
            {
                "tools": {
                    "t": {
                        "kind": "own",
                        "options": {"headers": [{"name": "X-Api-Key", "value": SECRET}]},
                    }
                }
            },
            "tools[0].options.headers[0].value",
        ),
        (
            {"tools": {"t": {"kind": "own", "options": {"h": {"X-Own": "sk-0123456789abcdef"}}}}},
            "tools[0].options.h.X-Own",
        ),
    ],
)
def test_literal_secrets_do_not_travel(data: JsonObject, place: str) -> None:
    agent = load_dict(data)
    with pytest.raises(ConfigurationError) as caught:
        portable(agent)
    assert str(caught.value).startswith(f"{place} is a secret itself")
    assert "write `${env:NAME}`" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in str(agent_to_dict(agent))
    assert "[REDACTED]" in str(agent_to_dict(agent))


@pytest.mark.parametrize(
    "data",
    [
        {
            "model": {
                "connection": {"apiKey": "", "authenticationMode": "user", "tokenUrl": "https://t"}
            }
        },
        {
            "model": {
                "options": {
                    "maxOutputTokens": 5,
                    "additionalProperties": {"max_tokens": "5", "author": "a"},
                }
            }
        },
        {
            "tools": {
                "t": {
                    "parameters": {"token": {"kind": "string", "default": "x"}},
                    "bindings": {"token": "t"},
                }
            }
        },
        {"inputs": {"apiKey": "x", "password": {"kind": "string", "description": "d"}}},
        {"model": {"connection": {"endpoint": "https://host:8080/a:b@c"}}},
    ],
)
def test_what_only_looks_like_a_secret(data: JsonObject) -> None:
    agent = load_dict(data)
    assert portable(agent) == agent
    assert "[REDACTED]" not in str(agent_to_dict(agent))


def test_secrets_in_metadata_are_redacted() -> None:
    agent = load_dict({"metadata": {"password": SECRET, "n": 1}})
    assert portable(agent).metadata == {"password": "[REDACTED]", "n": 1}


def test_a_client_without_the_keys_can_load(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = portable(load_dict(DATA))
    monkeypatch.delenv("PERDURE_KEY")
    with pytest.raises(LoadError, match="Environment variable 'PERDURE_KEY' not set"):
        load_dict(DATA)
    assert fields(portable(load_dict(DATA, defer_environment=True))) == fields(complete)


def test_what_decides_how_to_prepare_can_not_be_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_MODEL")
    with pytest.raises(LoadError, match="model.id: Environment variable 'PERDURE_MODEL' not set"):
        load_dict(DATA, defer_environment=True)
    with pytest.raises(
        LoadError, match="model.connection.kind: Environment variable 'PERDURE_MODEL' not set"
    ):
        load_dict(
            {"model": {"connection": {"kind": "${env:PERDURE_MODEL}"}}}, defer_environment=True
        )


def test_the_document_shows_references_and_loads_again() -> None:
    """`agent_to_dict` without secrets, and with them, is the same agent."""
    agent = load_dict(DATA)
    shown = agent_to_dict(agent)
    assert SECRET not in str(shown)
    assert shown["model"]["connection"]["endpoint"] == URL
    assert fields(load_dict(shown)) == fields(agent)
    assert fields(load_dict(agent_to_dict(agent, include_secrets=True))) == fields(agent)


def test_the_default_of_a_secret_is_one() -> None:
    agent = load_dict(
        {"model": {"connection": {"apiKey": f"${{env:PERDURE_UNSET_KEY:{SECRET}-long}}"}}}
    )
    with pytest.raises(ConfigurationError) as caught:
        portable(agent)
    assert str(caught.value).startswith(
        "model.connection.apiKey has a default that is a secret itself"
    )
    assert SECRET not in str(caught.value)
