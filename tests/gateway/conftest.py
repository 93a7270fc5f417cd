"""A gateway in this process, over a worker on a queue of its own; those who ask are real
clients.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from temporalio.client import Client

from perdure import Guardrails
from perdure.agents import Agent
from perdure.client.pauses import pauses_in_force, release_runs
from perdure.gateway.app import gateway_app
from perdure.gateway.gateway import Gateway, OfferedAgent
from perdure.gateway.identity import Authenticator, TokenFile
from perdure.gateway.limits import USUAL_LIMITS, Limits
from perdure.payloads.codec_server.app import serve
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.approvers import POLICY, Waits, declared, tokens_of_people, waiting_run
from ..support.chat_clients import ChatClients, chat_clients
from ..support.pages import axe as axe
from ..support.pages import opened as opened
from ..support.stage import Stage

TOKENS = """
tokens:
  - {token: token-of-ann-at-acme, name: ann, tenant: acme, roles: [reviewer]}
  - {token: token-of-bob-at-bolt, name: bob, tenant: bolt}
  - {token: token-of-the-operator, name: olga}
"""


class Served:
    """A gateway, where it is."""

    def __init__(self, gateway: Gateway, url: str) -> None:
        self.gateway = gateway
        self.url = url

    @asynccontextmanager
    async def asking(self, token: str = "") -> AsyncIterator[httpx2.AsyncClient]:
        """Somebody who asks perdure's own API."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(
            base_url=f"{self.url}/perdure", headers=headers, timeout=60
        ) as http:
            yield http


Serve = Callable[..., Any]


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """Those of two tenants, and of somebody who is of none."""
    file = tmp_path / "tokens.yaml"
    file.write_text(TOKENS)
    return TokenFile(file)


@pytest.fixture
def serve_agents(stage: Stage) -> Serve:
    """Serves agents on the stage's queue, for as long as a block runs."""

    @asynccontextmanager
    async def serve_them(
        *agents: Agent,
        known: Sequence[Authenticator] = (),
        tools: Any = (),
        guardrails: Mapping[str, Guardrails] | None = None,
        limits: Limits = USUAL_LIMITS,
        hosts: Sequence[str] = ("*",),
        port: int = 0,
        **settings: Any,
    ) -> AsyncIterator[Served]:
        offers = {
            agent.name: OfferedAgent(agent.name, agent, Path(f"{agent.name}.prompty"))
            for agent in agents
        }
        gateway = Gateway(stage.client, offers, stage.task_queue, known, **settings)
        async with (
            stage.worker(tools, guardrails=guardrails),
            serve(gateway_app(gateway, hosts=hosts, limits=limits), "127.0.0.1", port) as url,
        ):
            yield Served(gateway, url)

    return serve_them


@pytest.fixture
async def no_pause_stays(client: Client) -> AsyncIterator[None]:
    """Later tests on the same server find no pause of this one, which may pause all runs."""
    yield
    await release_runs(client, [each.id for each in await pauses_in_force(client)])


@pytest.fixture(scope="session")
async def clients() -> AsyncIterator[ChatClients]:
    """One process of Node's for the chat clients of all tests, which give theirs names of their
    own.
    """
    async with chat_clients() as process:
        yield process


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    """Those of `PEOPLE`; gateways and workers of this process have a key to vouch for them."""
    monkeypatch.setenv("PERDURE_VOUCH_KEY", f"k1:{'A' * 43}=")
    file = tmp_path / "people.yaml"
    file.write_text(tokens_of_people())
    return TokenFile(file)


@pytest.fixture
async def waits(
    scripted: Scripted, serve_agents: Serve, people: TokenFile, stage: Stage
) -> AsyncIterator[Waits]:
    """A run that ann has started and erin has steered, and that waits for two others of the role
    `finance`.
    """
    model = scripted([asks(call("pay", euros=3)), says("Paid.")])
    agent = scripted_agent(model, [declared(**POLICY)], instructions="user:\nHi")
    async with serve_agents(
        agent, known=[people], tools={"pay": lambda euros: f"paid {euros}"}
    ) as served:
        yield await waiting_run(served, stage.client, steered_by="erin")
