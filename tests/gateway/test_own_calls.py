"""`POST /perdure/calls/{token}`: whoever has the token finishes the call, whatever else they may
do.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import ToolContext
from perdure.gateway.identity import TokenFile
from perdure.json_types import JsonObject
from perdure.protocol.later import CompletionToken
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.waiting import wait_for
from .conftest import Serve

ORDER: JsonObject = {"name": "order", "kind": "function", "parameters": []}


async def test_who_has_the_token_finishes_the_call(
    serve_agents: Serve, scripted: Scripted, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_CALL_KEY", "a key for tests, of 32 characters")
    given: list[str] = []

    async def order(context: ToolContext) -> str:
        given.append(context.later())
        return context.later()

    agent = scripted_agent(scripted([asks(call("order", "c1")), says("over")]), [ORDER])
    agent.name = "shop"
    async with (
        serve_agents(agent, known=[tokens], tools={"order": order}) as served,
        served.asking("token-of-ann-at-acme") as ann,
        served.asking("token-of-bob-at-bolt") as bob,
        served.asking("wrong-token-of-somebody") as stranger,
        served.asking() as shop,
    ):
        run = (await ann.post("/runs", json={"agent": "shop"})).json()["id"]

        async def awaited() -> Any:
            return (await ann.get(f"/runs/{run}")).json()["state"].get("awaited")

        (waiting,) = await wait_for(awaited)
        assert (waiting["call_id"], waiting["name"]) == ("c1", "order")
        address = f"/calls/{given[0]}"
        # Another tenant has no such call, though it has the token; a wrong one names nothing.
        refused = await bob.post(address, json={"result": "mine"})
        assert (refused.status_code, refused.json()["kind"]) == (404, "not_found")
        assert (await stranger.post(address, json={"result": 1})).status_code == 401
        for token in (
            "nonsense",
            CompletionToken.of(run, "guessed"),
            CompletionToken.of("no-such", "x"),
        ):
            async with asyncio.timeout(5):
                guessed = await shop.post(f"/calls/{token}", json={"result": "mine"})
            assert (guessed.status_code, guessed.json()["kind"]) == (404, "call_unknown")
        assert (await shop.post(address, json={"result": 1, "error": "no"})).status_code == 422
        assert (await shop.post(address, json={"outcome": 1})).status_code == 422
        for _ in range(2):
            done = await shop.post(address, json={"result": {"number": 7}})
            assert done.status_code == 200
        outcome = (await ann.get(f"/runs/{run}/result", params={"wait": 30})).json()
        assert outcome["output"] == "over"
        second = await shop.post(address, json={"error": "no"})
        assert (second.status_code, second.json()["kind"]) == (409, "call_completed")
        assert "with a result before" in second.json()["detail"]
