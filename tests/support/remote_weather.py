"""Runs that ask a remote agent for the weather, and one whose worker is killed while the agent
works.
"""

from __future__ import annotations

from typing import Any

from temporalio.client import Client

from perdure.client import RunHandle
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says


def weather(url: str, **more: Any) -> JsonObject:
    """The declaration of a tool `weather`, which is the agent at `url`."""
    return {
        "name": "weather",
        "kind": "a2a",
        "connection": {"kind": "key", "endpoint": url},
        **more,
    }


def asking(*messages: str) -> list[Any]:
    """A model that sends these messages to the agent, one after the other."""
    return [*(asks(call("weather", message=message)) for message in messages), says("done")]


async def has_told(client: Client, run: RunHandle) -> bool:
    """Whether Temporal knows the remote task's id, from a heartbeat."""
    description = await client.get_workflow_handle(run.id).describe()
    details = [
        each.heartbeat_details.payloads for each in description.raw_description.pending_activities
    ]
    return any(b"taskId" in payload.data for payloads in details for payload in payloads)
