"""The same run without Temporal, to compare with: what its model received, and what came out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from temporalio.client import Client

from perdure.agents import Agent
from perdure.events import RunEvent
from perdure.history.chain import read_links
from perdure.history.link import RecordedLink
from perdure.json_types import JsonObject
from perdure.messages import Message, ModelReply
from perdure.options import RunOptions
from perdure.protocol.outcome import RunResult
from perdure.providers.base import ModelCallOptions
from perdure.providers.registry import provider_for
from perdure.testing import ScriptedModel
from perdure.testing.in_process import InProcessRun

from .agents import QUESTION


async def run_in_process(
    agent: Agent, tools: Any = (), messages: Sequence[Message] = QUESTION, **options: Any
) -> RunResult:
    """Run the agent in this process, its model over the same HTTP."""

    async def ask(asked: Agent, conversation: list[Message]) -> ModelReply:
        provider = provider_for(asked)
        return provider.reply(
            asked,
            await provider.call(
                asked, provider.to_request(asked, conversation), ModelCallOptions(60)
            ),
        )

    return await InProcessRun(
        agent, messages, model=ask, tools=tools, options=RunOptions(**options)
    ).run()


def portable(messages: Sequence[Message]) -> list[Message]:
    """The messages without the address of the server that a reply came from: each scripted model
    has its own port.
    """
    kept = [message.model_copy(deep=True) for message in messages]
    for message in kept:
        message.metadata.get("provider_content", {}).pop("server", None)
    return kept


def without_clock(events: Sequence[RunEvent]) -> list[RunEvent]:
    """The events without their times: where a local activity ends in one workflow task and the
    workflow hears of it in the next one, Temporal's SDK gives a replay the time of the first, and
    gave the run that of the second.
    """
    return [event.model_copy(update={"time": 0.0}) for event in events]


def fingerprints(model: ScriptedModel) -> list[str]:
    """SHA-256 of the conversation in each request that the model answered, in order."""
    return [fingerprint(request.body) for request in model.requests]


def fingerprint(body: JsonObject) -> str:
    return hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()


async def links(client: Client, workflow_id: str) -> list[RecordedLink]:
    """The workflow runs that the run is made of."""
    return [link async for link in read_links(client, workflow_id)]


def activity_types(link: RecordedLink) -> list[str]:
    """The types of the activities that a history records, in order."""
    return [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in link.history
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
