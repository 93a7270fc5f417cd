"""The page of a gateway in a browser: one agent whose model is scripted, and what tests ask
beside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from perdure.json_types import JsonObject
from perdure.testing import asks, call
from perdure.testing.script import Script

from .agents import Scripted, scripted_agent
from .needs import node_package

if TYPE_CHECKING:
    from playwright.async_api import Page

    from ..gateway.conftest import Serve, Served

Opened = Callable[..., Any]
PAY = {
    "name": "send_refund",
    "kind": "function",
    "description": "Sends money back.",
    "parameters": [
        {"name": "euros", "kind": "integer", "required": True, "description": "In euro."},
        {"name": "note", "kind": "string"},
    ],
    "perdure": {"approval": "always"},
}
ASK = {"name": "ask_user", "kind": "builtin"}
INPUTS = [
    {"name": "order", "kind": "integer", "required": True},
    {"name": "city", "kind": "string", "enumValues": ["Rome", "Bern"]},
]


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which checks rules of accessibility."""
    return (node_package("axe-core") / "axe.min.js").read_text(encoding="utf-8")


def send_refund(euros: int, note: str = "") -> str:
    return f"refunded {euros}"


@pytest.fixture
def opened(scripted: Scripted, serve_agents: Serve, page: Page) -> Callable[..., Any]:
    """Opens the page of a gateway with one agent, whose model follows the script."""

    @asynccontextmanager
    async def open_page(
        script: Script, *, path: str = "", **settings: Any
    ) -> AsyncIterator[tuple[Page, Served]]:
        agent = scripted_agent(
            scripted(script),
            [PAY, ASK],
            **{
                "instructions": "user:\nOrder {{order}}",
                "inputs": INPUTS,
                **settings.pop("agent", {}),
            },
        )
        async with serve_agents(agent, tools={"send_refund": send_refund}, **settings) as served:
            errors: list[str] = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on(
                "console",
                lambda said: errors.append(said.text) if "Content Security" in said.text else None,
            )
            await page.goto(f"{served.url}/{path}")
            yield page, served
            await page.goto("about:blank")
            async with served.asking(settings.get("token", "")) as http:
                for each in (await http.get("/approvals")).json():
                    if "runId" in each:
                        await http.post(f"/runs/{quote(each['runId'])}/cancel", json={})
            assert errors == []

    return open_page


async def start(served: Served, id: str, token: str = "") -> None:
    async with served.asking(token) as http:
        body = {"agent": "tested", "inputs": {"order": 7}, "id": id}
        assert (await http.post("/runs", json=body)).status_code == 201


async def waits(served: Served, id: str) -> JsonObject:
    """The call of the run that waits."""
    async with served.asking() as http:
        for _ in range(300):
            for each in (await http.get("/approvals")).json():
                if each["runId"].endswith(id):
                    found: JsonObject = each["call"]
                    return found
            await asyncio.sleep(0.1)
    raise AssertionError(f"{id} does not wait")


ASKS = asks(call("send_refund", "c1", euros=258, note="Sorry."), text="I refund all of it.")
