"""§2.4, §11: which client a connection gets, and with which key."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from perdure.errors import ModelError
from perdure.json_types import JsonObject
from perdure.prompty.load import load_dict
from perdure.prompty.worker_limits import keys_for
from perdure.providers import close_clients, get_connection, provider_for, register_connection
from perdure.providers.base import ModelCallOptions

from ..support.recorded_server import Recorded, RecordedServer, recorded_server
from ..support.wire_agents import ANTHROPIC, APIS, CHAT, agent
from .conftest import recording

Api = tuple[str, str]
VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "OPENAI_CUSTOM_HEADERS",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_ENDPOINT",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
)


@pytest.fixture(autouse=True)
def no_ambient_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


async def sent_key(api: Api, recorded: RecordedServer, **connection: Any) -> str:
    """The key that a call with this connection sends; every connection's endpoint is the recorded
    server.
    """
    is_anthropic = api[0] == "anthropic"
    recorded.answers(
        Recorded(recording("anthropic_text.json" if is_anthropic else "chat_text.json"))
    )
    endpoint = recorded.url if is_anthropic else recorded.url + "/v1"
    calling = agent(api, connection={"endpoint": endpoint, **connection})
    provider = provider_for(calling)
    await provider.call(calling, provider.to_request(calling, []), ModelCallOptions(5))
    headers = recorded.last.headers
    return headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize(
    ("api", "variable", "named_by"),
    [
        (CHAT, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        (("azure", "chat"), "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"),
        (("foundry", "chat"), "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        (ANTHROPIC, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        (ANTHROPIC, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    ],
)
async def test_the_connections_key_then_the_environments_then_none(
    api: Api,
    variable: str,
    named_by: str,
    recorded: RecordedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await sent_key(api, recorded, kind="key") == "no-key", "a local server needs none"
    monkeypatch.setenv(variable, "sk-env")
    assert await sent_key(api, recorded, kind="key") == "no-key", "it is not the provider's server"
    monkeypatch.setenv(named_by, recorded.url + "/some/path")
    assert await sent_key(api, recorded, kind="key") == "sk-env"
    assert await sent_key(api, recorded, kind="key", apiKey="sk-own") == "sk-own"
    assert await sent_key(api, recorded, kind="foundry") == "sk-env"
    assert await sent_key(api, recorded, kind="anonymous") == "no-key", (
        "an anonymous connection tells no secret"
    )


@pytest.mark.parametrize("api", APIS)
async def test_nothing_of_the_environment_goes_to_a_stranger(
    api: Api, recorded: RecordedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        if not name.endswith(("_URL", "_ENDPOINT")):
            monkeypatch.setenv(
                name, "x-gateway: planted" if name.endswith("HEADERS") else "planted"
            )
    recorded.answers(Recorded.of_json({"error": {"message": "who are you?"}}, status=401))
    calling = agent(api, connection={"kind": "key", "endpoint": recorded.url})
    with pytest.raises(ModelError) as caught:
        await provider_for(calling).call(calling, {}, ModelCallOptions(5))
    assert caught.value.kind == "authentication"
    assert "(no key was sent to 127.0.0.1:" in caught.value.message
    assert "planted" not in str(recorded.last.headers)
    monkeypatch.setenv(
        "ANTHROPIC_BASE_URL" if api == ANTHROPIC else "OPENAI_BASE_URL", recorded.url
    )
    with pytest.raises(ModelError, match=r"worker's environment variable (OPEN|AZ|ANTH)\w+_KEY\)"):
        await provider_for(calling).call(calling, {}, ModelCallOptions(5))
    assert recorded.last.headers["x-gateway"] == "planted", "the owner has named this server"


@pytest.mark.parametrize(
    ("key", "named"),
    [("sk-own-of-a-person", "connection)"), ("${env:OWN_KEY}", "connection, ${env:OWN_KEY})")],
)
async def test_a_refused_key_is_named_and_not_shown(
    recorded: RecordedServer, monkeypatch: pytest.MonkeyPatch, key: str, named: str
) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-own-of-a-team")
    recorded.answers(Recorded.of_json({"error": {"message": "wrong key"}}, status=401))
    written = {"kind": "key", "endpoint": recorded.url, "apiKey": key}
    calling = load_dict({"model": {"id": "m", "provider": "openai", "connection": written}})
    with pytest.raises(ModelError) as caught:
        await provider_for(calling).call(calling, {}, ModelCallOptions(5))
    assert caught.value.message == f"wrong key (the key is that of `apiKey` in the agent's {named}"


@pytest.mark.parametrize("api", APIS)
async def test_a_redirect_is_not_followed(api: Api, recorded: RecordedServer) -> None:
    async with recorded_server() as other:
        to_other = {"location": f"{other.url}/elsewhere?key=1"}
        recorded.answers(Recorded(b"", status=307, headers=to_other))
        calling = agent(
            api, connection={"kind": "key", "endpoint": recorded.url, "apiKey": "sk-own"}
        )
        with pytest.raises(
            ModelError, match=f"redirects to {other.url}, and no redirect"
        ) as caught:
            await provider_for(calling).call(calling, {}, ModelCallOptions(5))
        assert (caught.value.kind, caught.value.status) == ("configuration", 307)
        assert not other.received


def test_which_servers_a_key_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example:8443/openai")
    fits = (
        "https://api.openai.com/v1",
        "https://EU.api.openai.com",
        "https://gateway.example:8443/v1",
    )
    others = (
        "http://api.openai.com/v1",
        "https://api.openai.com:8443/v1",
        "https://api.openai.com.evil.example/v1",
        "https://evil-api.openai.com/v1",
        "https://api.openai.com@evil.example/v1",
        "https://evil.example\\@api.openai.com/v1",
        "https://evil.example#@api.openai.com/v1",
        "https://gateway.example/v1",
        "https://resource.openai.azure.com/openai/v1",
    )
    assert [url for url in (*fits, *others) if keys_for("openai")[0].fits(url)] == list(fits)


@pytest.mark.parametrize(
    ("api", "variable"),
    [
        (CHAT, "OPENAI_API_KEY"),
        (("azure", "chat"), "AZURE_OPENAI_API_KEY"),
        (ANTHROPIC, "ANTHROPIC_API_KEY"),
    ],
)
async def test_a_missing_key_is_named(api: Api, variable: str) -> None:
    endpoint = {"endpoint": "https://r.openai.azure.com"} if api[0] == "azure" else {}
    error = await configuration_error(agent(api, connection={"kind": "key", **endpoint}))
    assert f"set {variable} in the worker's environment" in error.message
    assert "apiKey: ${env:" + variable + "}" in error.message


@pytest.mark.parametrize(
    ("connection", "text"),
    [
        (
            {"kind": "key", "endpoint": "localhost:8080/v1"},
            "'localhost:8080/v1' has to start with http",
        ),
        ({"kind": "reference", "name": "nobody"}, "No connection is registered as 'nobody'"),
        ({"kind": "reference"}, "No connection is registered as None"),
        ({"kind": "oauth", "endpoint": "http://127.0.0.1:9"}, "can't be of kind 'oauth'"),
    ],
)
async def test_unusable_connections(connection: JsonObject, text: str) -> None:
    assert text in (await configuration_error(agent(CHAT, connection=connection))).message


async def configuration_error(calling: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await provider_for(calling).call(calling, {}, ModelCallOptions(1))
    assert caught.value.kind == "configuration"
    return caught.value


async def test_a_registered_client_is_used(recorded: RecordedServer) -> None:
    client = openai.AsyncOpenAI(
        base_url=recorded.url + "/v1", api_key="sk-registered", max_retries=5
    )
    register_connection("mine", client)
    assert get_connection("mine") is client
    assert await sent_key(CHAT, recorded, kind="reference", name="mine") == "sk-registered"
    recorded.answers(Recorded(b"{}", status=500))
    calling = agent(CHAT, connection={"kind": "reference", "name": "mine"})
    with pytest.raises(ModelError):
        await provider_for(calling).call(calling, {}, ModelCallOptions(5))
    assert len(recorded.received) == 2, "its own retries are off too"
    await client.close()


async def test_a_client_that_routes_by_the_body_gets_it_unencoded(recorded: RecordedServer) -> None:
    client = openai.AsyncAzureOpenAI(
        azure_endpoint=recorded.url, api_key="k", api_version="2024-10-21"
    )
    register_connection("azure", client)
    recorded.answers(Recorded(recording("chat_text.json")))
    calling = agent(("azure", "chat"), connection={"kind": "reference", "name": "azure"})
    request = provider_for(calling).to_request(calling, [])
    await provider_for(calling).call(calling, request, ModelCallOptions(5))
    assert recorded.last.path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"
    assert recorded.last.body == request
    await client.close()


@pytest.mark.parametrize("kind", ["sync", "other SDK"])
async def test_a_registered_client_of_the_wrong_kind(kind: str, recorded: RecordedServer) -> None:
    sync, other = openai.OpenAI(api_key="k"), anthropic.AsyncAnthropic(api_key="k")
    register_connection("wrong", sync if kind == "sync" else other)
    error = await configuration_error(
        agent(CHAT, connection={"kind": "reference", "name": "wrong"})
    )
    assert "'openai' needs an openai.AsyncOpenAI" in error.message
    sync.close()
    await other.close()


async def test_clients_are_shared_until_they_are_closed(recorded: RecordedServer) -> None:
    await close_clients()
    for _ in range(3):
        await sent_key(CHAT, recorded, kind="anonymous")
    assert recorded.connections == 1
    await close_clients()
    await sent_key(CHAT, recorded, kind="anonymous")
    assert recorded.connections == 2
