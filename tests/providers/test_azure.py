"""`provider: azure`: which URL is called, in which version, with which key or token, and with none
at strangers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import perdure
from perdure.agents import Agent
from perdure.errors import ModelError
from perdure.json_types import JsonObject
from perdure.providers import provider_for
from perdure.providers.azure import _credential
from perdure.providers.base import ModelCallOptions

from ..support.recorded_server import Received, Recorded, RecordedServer
from ..support.wire_agents import agent
from .conftest import recording

CHAT, RESPONSES = ("azure", "chat"), ("azure", "responses")
DATED = {"apiVersion": "2024-10-21", "apiKey": "k"}
VARIABLES = (
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_AD_TOKEN",
    "AZURE_OPENAI_ENDPOINT",
    "OPENAI_API_KEY",
    "OPENAI_API_VERSION",
    "OPENAI_BASE_URL",
)


@pytest.fixture(autouse=True)
def no_ambient_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


async def called(recorded: RecordedServer, calling: Agent) -> Received:
    """The request that a call by the SDK's client makes."""
    is_chat = calling.model is not None and calling.model.api_type == "chat"
    recorded.answers(Recorded(recording("chat_text.json" if is_chat else "responses_text.json")))
    provider = provider_for(calling)
    request = provider.to_request(calling, [perdure.Message.user("Hi")])
    response = await provider.call(calling, request, ModelCallOptions(5))
    assert provider.process(calling, response)
    return recorded.last


@pytest.mark.parametrize(
    ("api", "endpoint", "connection", "path"),
    [
        (CHAT, "", DATED, "/openai/deployments/m/chat/completions?api-version=2024-10-21"),
        (CHAT, "/", DATED, "/openai/deployments/m/chat/completions?api-version=2024-10-21"),
        (CHAT, "/openai", DATED, "/openai/deployments/m/chat/completions?api-version=2024-10-21"),
        (
            CHAT,
            "/gate/way",
            DATED,
            "/gate/way/openai/deployments/m/chat/completions?api-version=2024-10-21",
        ),
        (
            CHAT,
            "/openai/deployments/d/chat/completions?api-version=2025-01-01-preview",
            {"apiKey": "k"},
            "/openai/deployments/d/chat/completions?api-version=2025-01-01-preview",
        ),
        (RESPONSES, "", DATED, "/openai/responses?api-version=2024-10-21"),
        (RESPONSES, "/openai/deployments/d", DATED, "/openai/responses?api-version=2024-10-21"),
        (CHAT, "", {"apiKey": "k"}, "/openai/v1/chat/completions"),
        (RESPONSES, "/", {"apiKey": "k"}, "/openai/v1/responses"),
        (CHAT, "/openai/v1", DATED, "/openai/v1/chat/completions"),
        (CHAT, "/openai/v1/", {"apiKey": "k"}, "/openai/v1/chat/completions"),
    ],
)
async def test_what_is_called(
    api: tuple[str, str],
    endpoint: str,
    connection: JsonObject,
    path: str,
    recorded: RecordedServer,
) -> None:
    sent = await called(
        recorded, agent(api, connection={"endpoint": recorded.url + endpoint, **connection})
    )
    assert (sent.path, sent.body["model"]) == (path, "m")
    assert sent.headers.get("api-key") == (None if "/v1/" in path else "k")
    assert sent.headers.get("authorization") == ("Bearer k" if "/v1/" in path else None)


async def test_the_environment_says_it_all(
    recorded: RecordedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError, match="No endpoint for 'azure': .*AZURE_OPENAI_ENDPOINT"):
        await called(recorded, agent(CHAT))
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", recorded.url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "from-env")
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-04-01-preview")
    sent = await called(recorded, agent(CHAT))
    assert sent.path == "/openai/deployments/m/chat/completions?api-version=2025-04-01-preview"
    assert sent.headers["api-key"] == "from-env"
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "a-token")
    sent = await called(recorded, agent(CHAT))
    assert sent.headers["authorization"] == "Bearer a-token", (
        "as the SDK does, the token goes before the key"
    )
    assert "api-key" not in sent.headers
    monkeypatch.delenv("OPENAI_API_VERSION")
    assert (await called(recorded, agent(CHAT))).headers["authorization"] == "Bearer a-token"


@pytest.mark.parametrize(
    "connection", [{}, {"apiVersion": "2024-10-21"}, {"apiVersion": "2024-10-21", "apiKey": "own"}]
)
async def test_a_stranger_gets_no_key_and_no_token(
    connection: JsonObject, recorded: RecordedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "planted")
    sent = await called(recorded, agent(CHAT, connection={"endpoint": recorded.url, **connection}))
    assert "planted" not in str(sent.headers)
    with pytest.raises(
        ModelError,
        match="A token of Entra ID only goes to Azure's hosts, not to 'http://127.0.0.1:",
    ) as caught:
        await called(
            recorded, agent(CHAT, connection={"kind": "foundry", "endpoint": recorded.url})
        )
    assert caught.value.kind == "configuration"


@pytest.fixture
def identity(recorded: RecordedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Azure's own library, which asks the identity of the machine that it thinks it is on."""
    for name in (
        "AZURE_CLIENT_ID",
        "AZURE_TENANT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_TOKEN_CREDENTIALS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", recorded.url)
    _credential.cache_clear()
    yield
    _credential.cache_clear()


@pytest.mark.parametrize("version", ["2024-10-21", None])
async def test_a_token_of_entra_id(
    version: str | None, identity: None, recorded: RecordedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{recorded.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "h")
    token = {
        "access_token": "from-entra",
        "expires_on": "4102444800",
        "resource": "r",
        "token_type": "Bearer",
    }
    recorded.answers(Recorded.of_json(token), Recorded(recording("chat_text.json")))
    calling = agent(
        CHAT, connection={"kind": "foundry", **({"apiVersion": version} if version else {})}
    )
    await provider_for(calling).call(
        calling, provider_for(calling).to_request(calling, []), ModelCallOptions(20)
    )
    assert recorded.last.headers["authorization"] == "Bearer from-entra"
    assert "api-key" not in recorded.last.headers
