"""How the card of a remote agent becomes what the model is offered, and what becomes of cards that
are none.
"""

from __future__ import annotations

import json

import pytest
from starlette.requests import Request
from starlette.responses import Response

from perdure.json_types import JsonObject
from perdure.tools.kind import ToolOfferError
from tests.support import a2a_odd as odd
from tests.support.a2a_agents import RemoteAgent, served
from tests.support.a2a_calls import KEY, agent_with, offered
from tests.support.peers import KAOS_CARD, KAOS_TASKS_CARD, Peer


async def test_the_card_describes_the_tool() -> None:
    async with RemoteAgent().served() as url:
        offering = await offered(agent_with(url))
        assert offering.name == "weather"
        assert (
            offering.description
            == "Knows the weather.\n\nIts skills:\n- Rain: Says where it rains."
        )
        assert offering.parameters["required"] == ["message"]
        assert offering.timeout == 600
        assert offering.idempotent
        own = await offered(agent_with(url, description="My office.", perdure={"timeout": 5}))
        assert own.description == "My office.\n\nIts skills:\n- Rain: Says where it rains."
        assert own.timeout == 5


async def test_the_key_is_sent_and_not_recorded() -> None:
    async with RemoteAgent(key=KEY).served() as url:
        offering = await offered(agent_with(url, key=KEY))
        assert KEY not in json.dumps(offering.details)
        with pytest.raises(
            ToolOfferError,
            match=r"HTTP status 401: it does not let this worker in; check 'connection.ap",
        ):
            await offered(agent_with(url))


async def test_a_slow_agent() -> None:
    async with served(odd.server(odd.never)) as url:
        with pytest.raises(
            ToolOfferError, match=r"no answer within 0.2 seconds \('options.discoveryTimeout'\)"
        ):
            await offered(agent_with(url, options={"discoveryTimeout": 0.2}))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (odd.answers("<html>", 500), "HTTP status 500"),
        (odd.answers("<html>"), "not an agent card"),
        (odd.answers("[1, 2]"), "not an agent card"),
        (
            odd.answers('{"name": "x"}'),
            "its card has no interface by JSONRPC or HTTP[+]JSON of version 1.0 or 0.3, but: none",
        ),
        (odd.answers('{"name": "x", "skills": 3}'), "makes no sense"),
        (odd.answers('{"name": "x", "supportedInterfaces": [{"url": 5}]}'), "makes no sense"),
        (odd.answers('{"name": "x", "securitySchemes": [1]}'), "makes no sense"),
        (odd.answers(odd.nested()), "not an agent card"),
        (odd.answers(" " * 5_000_000), "larger than 262,144 bytes"),
        (odd.answers(odd.bomb(), content_encoding="gzip"), "is compressed"),
        (
            odd.redirects("http://127.0.0.1:9/card"),
            "http://127.0.0.1:9 .*where this tool does not go",
        ),
        (odd.redirects("file:///etc/passwd"), "where this tool does not go|can't be"),
        (odd.redirects("/again"), "redirects"),
    ],
)
async def test_cards_that_are_none(answer: odd.Answer, problem: str) -> None:
    async with served(odd.server(answer)) as url:
        with pytest.raises(ToolOfferError, match=problem) as caught:
            await offered(agent_with(url, key=KEY))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"supportedInterfaces": [{"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC"}]},
            "'options.allowedHosts'",
        ),
        ({"supportedInterfaces": [{"url": "{base}/", "protocolBinding": "GRPC"}]}, "but: GRPC"),
        (
            {
                "supportedInterfaces": [
                    {"url": "{base}/", "protocolBinding": "JSONRPC", "protocolVersion": "abc"}
                ]
            },
            "but: JSONRPC abc",
        ),
        (
            {"supportedInterfaces": [{"url": "http://[", "protocolBinding": "JSONRPC"}]},
            "points elsewhere",
        ),
        (
            {
                "securitySchemes": {
                    "k": {"apiKeySecurityScheme": {"location": "query", "name": "key"}}
                }
            },
            "wants the key in 'query' as 'key': only headers are possible",
        ),
        (
            {
                "securitySchemes": {
                    "k": {"apiKeySecurityScheme": {"location": "header", "name": "Host"}}
                }
            },
            "only headers are possible",
        ),
    ],
)
async def test_cards_that_point_to_what_is_not_called(fields: JsonObject, problem: str) -> None:
    async with served(odd.server(odd.never, odd.card(**fields))) as url:
        with pytest.raises(ToolOfferError, match=problem):
            await offered(agent_with(url, key=KEY))


async def test_the_key_goes_to_the_endpoint_s_host_alone() -> None:
    elsewhere = RemoteAgent()
    async with elsewhere.served() as other:
        async with served(odd.server(odd.redirects(f"{other}/.well-known/agent-card.json"))) as url:
            with pytest.raises(ToolOfferError, match="where this tool does not go"):
                await offered(agent_with(url, key=KEY))
        assert elsewhere.requests == []


async def test_the_header_that_the_card_asks_for() -> None:
    schemes = {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Office"}}}
    async with served(odd.server(odd.never, odd.card(securitySchemes=schemes))) as url:
        offering = await offered(agent_with(url, key=KEY))
    assert offering.details["auth"] == {"header": "X-Office"}


async def test_an_older_card_is_found_where_older_agents_have_it() -> None:
    old = {
        "name": "Old",
        "description": "Knows.",
        "url": "{base}/a2a",
        "version": "1",
        "protocolVersion": "0.3.0",
        "preferredTransport": "JSONRPC",
        "capabilities": {"streaming": True},
        "skills": [],
    }
    asked: list[tuple[str, str | None]] = []

    async def answer(request: Request) -> Response:
        asked.append((request.url.path, request.headers.get("x-team")))
        is_there = request.url.path == "/.well-known/agent.json"
        body = json.dumps(old).replace("{base}", str(request.base_url)[:-1])
        return Response(body if is_there else "{}", 200 if is_there else 404)

    async with served(odd.server(answer)) as url:
        offering = await offered(agent_with(url, options={"headers": {"X-Team": "blue"}}))
    assert offering.description == "Knows."
    assert asked == [("/.well-known/agent-card.json", "blue"), ("/.well-known/agent.json", "blue")]


@pytest.mark.parametrize("card", [KAOS_CARD, KAOS_TASKS_CARD], ids=["capabilities", "tasks"])
async def test_a_card_of_kaos_says_how_to_name_the_agent(card: JsonObject) -> None:
    async with served(Peer(card)) as url:
        with pytest.raises(ToolOfferError, match=r"is one of KAOS, .*metadata\.perdure\.agents"):
            await offered(agent_with(url))
