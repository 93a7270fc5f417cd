"""§2.4, §11: which client a connection gets, and with which key."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from perdure.errors import ModelError
from perdure.providers import close_clients, get_connection, provider_for, register_connection

from .agents import ANTHROPIC, APIS, CHAT, agent
from .conftest import recording
from .recorded_server import Recorded, RecordedServer

Api = tuple[str, str]
VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "AZURE_OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
)


@pytest.fixture(autouse=True)
def no_ambient_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


async def sent_key(api: Api, recorded: RecordedServer, **connection: Any) -> str:
    """The key that a call with this connection sends; every connection's endpoint is the recorded server."""
    is_anthropic = api[0] == "anthropic"
    recorded.answers(Recorded(recording("anthropic_text.json" if is_anthropic else "chat_text.json")))
    endpoint = recorded.url if is_anthropic else recorded.url + "/v1"
    calling = agent(api, connection={"endpoint": endpoint, **connection})
    provider = provider_for(calling)
    await provider.call(calling, provider.to_request(calling, []), timeout=5)
    headers = recorded.last.headers
    return headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize(
    ("api", "variable"),
    [
        (CHAT, "OPENAI_API_KEY"),
        (("azure", "chat"), "AZURE_OPENAI_API_KEY"),
        (("foundry", "chat"), "OPENAI_API_KEY"),
        (ANTHROPIC, "ANTHROPIC_API_KEY"),
        (ANTHROPIC, "ANTHROPIC_AUTH_TOKEN"),
    ],
)
async def test_the_connections_key_then_the_environments_then_none(
    api: Api, variable: str, recorded: RecordedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await sent_key(api, recorded, kind="key") == "no-key", "a local server needs none"
    monkeypatch.setenv(variable, "sk-env")
    assert await sent_key(api, recorded, kind="key") == "sk-env"
    assert await sent_key(api, recorded, kind="key", apiKey="sk-own") == "sk-own"
    assert await sent_key(api, recorded, kind="foundry") == "sk-env"
    assert await sent_key(api, recorded, kind="anonymous") == "no-key", "an anonymous connection tells no secret"


@pytest.mark.parametrize(
    ("api", "variable"),
    [(CHAT, "OPENAI_API_KEY"), (("azure", "chat"), "AZURE_OPENAI_API_KEY"), (ANTHROPIC, "ANTHROPIC_API_KEY")],
)
async def test_a_missing_key_is_named(api: Api, variable: str) -> None:
    error = await configuration_error(agent(api, connection={"kind": "key"}))
    assert f"set {variable} in the worker's environment" in error.message
    assert "apiKey: ${env:" + variable + "}" in error.message


@pytest.mark.parametrize(
    ("connection", "text"),
    [
        ({"kind": "key", "endpoint": "localhost:8080/v1"}, "'localhost:8080/v1' has to start with http"),
        ({"kind": "reference", "name": "nobody"}, "No connection is registered as 'nobody'"),
        ({"kind": "reference"}, "No connection is registered as None"),
        ({"kind": "oauth", "endpoint": "http://127.0.0.1:9"}, "can't be of kind 'oauth'"),
    ],
)
async def test_unusable_connections(connection: dict[str, Any], text: str) -> None:
    assert text in (await configuration_error(agent(CHAT, connection=connection))).message


async def configuration_error(calling: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await provider_for(calling).call(calling, {}, timeout=1)
    assert (caught.value.kind, caught.value.retryable) == ("configuration", False)
    return caught.value


async def test_a_registered_client_is_used(recorded: RecordedServer) -> None:
    client = openai.AsyncOpenAI(base_url=recorded.url + "/v1", api_key="sk-registered", max_retries=5)
    register_connection("mine", client)
    assert get_connection("mine") is client
    assert await sent_key(CHAT, recorded, kind="reference", name="mine") == "sk-registered"
    recorded.answers(Recorded(b"{}", status=500))
    calling = agent(CHAT, connection={"kind": "reference", "name": "mine"})
    with pytest.raises(ModelError):
        await provider_for(calling).call(calling, {}, timeout=5)
    assert len(recorded.received) == 2, "its own retries are off too"
    await client.close()


async def test_a_client_that_routes_by_the_body_gets_it_unencoded(recorded: RecordedServer) -> None:
    client = openai.AsyncAzureOpenAI(azure_endpoint=recorded.url, api_key="k", api_version="2024-10-21")
    register_connection("azure", client)
    recorded.answers(Recorded(recording("chat_text.json")))
    calling = agent(("azure", "chat"), connection={"kind": "reference", "name": "azure"})
    request = provider_for(calling).to_request(calling, [])
    await provider_for(calling).call(calling, request, timeout=5)
    assert recorded.last.path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"
    assert recorded.last.body == request
    await client.close()


@pytest.mark.parametrize("kind", ["sync", "other SDK"])
async def test_a_registered_client_of_the_wrong_kind(kind: str, recorded: RecordedServer) -> None:
    sync, other = openai.OpenAI(api_key="k"), anthropic.AsyncAnthropic(api_key="k")
    register_connection("wrong", sync if kind == "sync" else other)
    error = await configuration_error(agent(CHAT, connection={"kind": "reference", "name": "wrong"}))
    assert "'openai' needs an openai.AsyncOpenAI" in error.message
    sync.close()
    await other.close()


@pytest.mark.parametrize("api", APIS)
async def test_a_request_that_json_cannot_say(api: Api, recorded: RecordedServer) -> None:
    calling = agent(api, connection={"kind": "anonymous", "endpoint": recorded.url})
    with pytest.raises(ModelError, match="can't be written as JSON") as caught:
        await provider_for(calling).call(calling, {"x": object()}, timeout=1)
    assert caught.value.kind == "bad_request"


async def test_clients_are_shared_until_they_are_closed(recorded: RecordedServer) -> None:
    await close_clients()
    for _ in range(3):
        await sent_key(CHAT, recorded, kind="anonymous")
    assert recorded.connections == 1
    await close_clients()
    await sent_key(CHAT, recorded, kind="anonymous")
    assert recorded.connections == 2
