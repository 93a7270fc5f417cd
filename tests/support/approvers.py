"""People who try to decide about what waits at a gateway, with the right and without."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
from temporalio.client import Client, WorkflowUpdateFailedError

from perdure.client import get_run
from perdure.json_types import JsonObject
from perdure.protocol.names import APPROVAL
from perdure.protocol.run import CallApproval
from perdure.tool_calls import PendingApproval

if TYPE_CHECKING:
    from ..gateway.conftest import Served

PEOPLE = {
    "ann": ("acme", ["finance"]),  # starts the run
    "erin": ("acme", ["finance"]),  # says something to it
    "bob": ("acme", ["reviewer"]),
    "carl": ("acme", []),
    "dora": ("bolt", ["finance"]),
    "fay": ("acme", ["finance"]),
    "gus": ("acme", ["finance", "reviewer"]),
    "hal": (None, ["board"]),
}
POLICY = {"by": ["finance"], "notRequester": True, "count": 2}


def tokens_of_people() -> str:
    """The file of tokens of `PEOPLE`."""
    lines = [
        f"  - {{token: {token(name)}, name: {name}, roles: "
        f"{roles}{f', tenant: {tenant}' if tenant else ''}}}"
        for name, (tenant, roles) in PEOPLE.items()
    ]
    return "\n".join(["tokens:", *lines])


def declared(**approval: Any) -> JsonObject:
    return {
        "name": "pay",
        "kind": "function",
        "parameters": [{"name": "euros", "kind": "integer", "required": True}],
        "perdure": {"approval": approval},
    }


def token(name: str) -> str:
    return f"the-token-of-{name}-is-this"


@dataclass
class Waits:
    """A run that waits, and what can be tried about it."""

    served: Served
    client: Client
    run: str
    origin: str
    pending: PendingApproval

    async def ask(self, who: str, path: str = "approve", **body: Any) -> str:
        """Decide by the gateway; returns the problem's kind, "" where there is none."""
        sent = {"callId": self.pending.call_id, "digest": self.pending.digest, **body}
        async with self.served.asking(token(who)) as http:
            answer = await http.post(f"/runs/{self.run}/{path}", json=sent)
        return "" if answer.is_success else str(answer.json()["kind"])

    def decision(self, **fields: Any) -> CallApproval:
        said = {"call_id": self.pending.call_id, "digest": self.pending.digest, "approved": True}
        return CallApproval(**{**said, "id": uuid.uuid4().hex, **fields})

    async def update(self, decision: Any) -> str:
        """Decide by an update of a plain client; returns the refusal's kind, "" where there is
        none.
        """
        try:
            await self.client.get_workflow_handle(self.run).execute_update(APPROVAL, decision)
        except WorkflowUpdateFailedError as error:
            details: Any = getattr(error.cause, "details", None)
            return str(details[0]["kind"])
        return ""


async def waiting_run(
    served: Served, client: Client, *, steered_by: str = "", key: str = ""
) -> Waits:
    async with served.asking(token("ann")) as http:
        started = await http.post(
            "/runs", json={"agent": "tested"}, headers={"Idempotency-Key": key} if key else {}
        )
        run = started.json()["id"]
        await waiting_call(http, run)
    if steered_by:
        async with served.asking(token(steered_by)) as http:
            assert (await http.post(f"/runs/{run}/steer", json={"text": "Hurry."})).is_success
    status = await get_run(client, run).status()
    described = await client.get_workflow_handle(run).describe()
    return Waits(served, client, run, described.run_id, status.pending_approvals[0])


async def waiting_call(http: httpx2.AsyncClient, run: str) -> JsonObject:
    """What waits in that run, once the server lists it."""
    async with asyncio.timeout(30):
        while True:
            rows = (await http.get("/approvals", params={"limit": 1000})).json()
            if found := [row["call"] for row in rows if row["runId"] == run]:
                call: JsonObject = found[0]
                return call
            await asyncio.sleep(0.1)
