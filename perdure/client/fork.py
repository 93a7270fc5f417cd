"""Starts a new run from a run's conversation as it was before an iteration, optionally with another
model.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from ..agents import Agent, with_others
from ..conversation import Conversation, count_of_instructions
from ..history.calls import end_of_round
from ..history.chain import Chain
from ..history.link import (
    CONVERSATION_ACTIVITIES,
    RecordedLink,
    read_input,
    read_link,
    read_start,
)
from ..messages import Message, TextPart
from ..model_choice import model_choice, with_other_model
from ..options import RunOptions
from ..prompty.prepare import new_prompt
from ..protocol.activities import CALL_MODEL
from ..protocol.names import FORK_OF
from ..protocol.outcome import ForkOf
from ..protocol.run import OtherModel, RecordedOptions, RunInput
from ..protocol.search_attributes import HANDED_BY, ORIGIN, STARTED, TENANT, keyword, quote
from ..settings.delegates import as_started
from ..text import excerpt, valid_text
from .reading.results import conversation_at_end
from .run_input import loaded_agent
from .starting import StartOptions


def other_model(name: str) -> OtherModel:
    """Return the model named by its id or `PROVIDER/ID`. Raises ConfigurationError for a name
    without an id.
    """
    choice = model_choice(valid_text(name))
    return OtherModel(provider=choice.provider, id=choice.id or "")


def agent_to_start(agent: Agent | str | PathLike[str]) -> Agent:
    """Return the agent, with the agents to which it may delegate as tools. Raises the errors of
    `load`.
    """
    return as_started(loaded_agent(agent), os.environ)


def with_instructions(
    messages: Sequence[Message], seed: Sequence[Message], new: Sequence[Message]
) -> list[Message]:
    """Return the conversation with its initial instructions (`seed`) replaced by new ones."""
    old = [message for message in seed if message.instructs]
    if old == list(new):
        return list(messages)
    return [*new, *(message for message in messages if message not in old)]


def with_results(messages: Sequence[Message], results: Mapping[str, str]) -> list[Message]:
    """Return the conversation with these texts as the results of calls, by call id; each has
    `edited` in its metadata. Raises ValueError for a call without exactly one result.
    """
    ids = [message.metadata.get("tool_call_id") for message in messages]
    for id in results:
        if (found := ids.count(id)) != 1:
            raise ValueError(
                f"results: call {id!r:.200} has {found} results in the conversation of the fork, "
                "expected 1; calls with a result: "
                f"{excerpt(', '.join(filter(None, ids)), 1000) or 'none'}"
            )
    edited: dict[str | None, Message] = {
        id: Message(
            role="tool",
            parts=[TextPart(value=valid_text(text))],
            metadata={"tool_call_id": id, "edited": True},
        )
        for id, text in results.items()
    }
    return [edited.get(id, message) for id, message in zip(ids, messages, strict=True)]


@dataclass
class ConversationBefore:
    """The conversation before an iteration, from one link's history."""

    messages: list[Message] | None
    """The conversation; None if the link has no model call of that iteration."""
    last: int
    """The last iteration before `at` with a model call in this link or an earlier one."""


async def conversation_before(client: Client, link: RecordedLink, at: int) -> ConversationBefore:
    """Return the conversation at the beginning of iteration `at`, after the tool results of the one
    before it.

    Messages trimmed or rewritten by earlier iterations have the form of their model calls; messages
    read by iteration `at` itself are left out. Raises like `decode`.
    """
    carried = link.input.carried
    first = carried.loop.iteration + 1 if carried else 1
    begun = link.initial_conversation
    conversation, last = Conversation(begun.messages, version=begun.version), first - 1
    messages = list(begun.messages)
    if at == first:
        return ConversationBefore(_instructed(link, messages), last)
    for activity in link.work.activities_of(CONVERSATION_ACTIVITIES):
        recorded = await activity.input_fields(client)
        if recorded.conversation is not None:
            reference = recorded.conversation
            for operation in reference.operations[max(0, conversation.version - reference.base) :]:
                conversation.apply(operation)
        if activity.type != CALL_MODEL or recorded.iteration <= last:
            continue
        news, conversation.operations = conversation.operations, []
        conversation.first_version = conversation.version
        before = Conversation(messages)
        for operation in news[: end_of_round(news)]:
            before.apply(operation)
        if recorded.iteration == at:
            return ConversationBefore(before.messages, last)
        messages, last = list(conversation.messages), recorded.iteration
    return ConversationBefore(None, last)


def _instructed(link: RecordedLink, begun: list[Message]) -> list[Message]:
    """Return the link's first messages, after a handoff with the new agent's instructions."""
    input = link.input
    if input.carried is None or not input.carried.is_handoff:
        return begun
    return [*input.handoffs[input.handed_to], *begun[count_of_instructions(begun) :]]


_OWN_MEMO = (FORK_OF, "agent", STARTED, HANDED_BY)


@dataclass(frozen=True)
class Fork:
    """Everything that a fork starts with."""

    agent: Agent
    inputs: dict[str, Any]
    messages: list[Message]
    options: RunOptions
    task_queue: str
    start: StartOptions


@dataclass(frozen=True)
class Changes:
    """The differences between a fork and its source."""

    steer: str | None = None
    model: str | None = None
    agent: Agent | str | PathLike[str] | None = None
    options: Mapping[str, Any] | None = None
    """The fields of `RunOptions` that differ."""
    inputs: Mapping[str, Any] | None = None
    """Inputs for another agent's prompt."""
    results: Mapping[str, str] | None = None
    """Call id → the text that the fork's model reads as that call's result."""


_NO_CHANGES = Changes()


async def fork_of(chain: Chain, at: int | None, changes: Changes = _NO_CHANGES) -> Fork:
    """Return the start of a run that continues this one from before iteration `at`; None is after
    its end.

    Raises ValueError for an iteration that the run does not have or the namespace has deleted,
    the errors of `load`, and `RPCError` when there is no such run.
    """
    described = await chain.describe()
    link = await _link_with(chain, described.run_id, sys.maxsize if at is None else at)
    is_closed = described.close_time is not None and link.next_run_id is None
    before = await conversation_before(chain.client, link, sys.maxsize if at is None else at)
    at = before.last + 1 if at is None else at
    messages = await _conversation(chain, link, at, before, is_closed)
    messages = with_results(messages, changes.results or {})
    input = link.input
    agent, inputs = _agent(input), {**input.inputs, **(changes.inputs or {})}
    if changes.agent is not None:
        replaced = agent_to_start(changes.agent)
        seed = [*link.initial_conversation.messages, *messages[: count_of_instructions(messages)]]
        messages = with_instructions(messages, seed, new_prompt(replaced, inputs).instructions)
        agent = replaced
    if changes.model is not None:
        agent = with_other_model(agent, model_choice(changes.model))
    if changes.steer is not None:
        messages = [*messages, Message.user(valid_text(changes.steer))]
    _require_question(chain, at, messages)
    return Fork(
        agent=agent,
        inputs=inputs,
        messages=messages,
        options=RecordedOptions.model_validate({**dict(input.options), **(changes.options or {})}),
        task_queue=described.task_queue,
        start={
            **await _start(chain, described, at),
            "deps": input.deps,
            "handoffs": None if changes.agent else input.handoffs,
        },
    )


async def fork_origin(description: WorkflowExecutionDescription) -> ForkOf | None:
    """Return the source of this fork, from its memo; None for a run that is not a fork."""
    entry = (await description.memo()).get(FORK_OF)
    return ForkOf.model_validate(entry) if isinstance(entry, Mapping) else None


async def forks_of(client: Client, id: str, limit: int | None = None) -> AsyncIterator[str]:
    """Yield the ids of a run's forks, latest first, as long as the namespace retains them. Raises
    `RPCError`.

    They are found by the search attribute `PerdureOrigin`: without it in the namespace, there are
    none.
    """
    origin = f"{ORIGIN.name} = {quote(keyword(id))}"
    async for run in client.list_workflows(
        f"{origin} AND ExecutionStatus != 'ContinuedAsNew'", limit=limit
    ):
        memo = await run.memo()
        if isinstance(entry := memo.get(FORK_OF), Mapping) and entry.get("run") == id:
            yield run.id


async def _link_with(chain: Chain, run_id: str, at: int) -> RecordedLink:
    """Return the link with that iteration, or the last one before it. Raises ValueError for one
    that is deleted.
    """
    client, id = chain.client, chain.workflow_id
    if at < 1:
        raise ValueError(f"at={at}: expected the number of an iteration, from 1")
    later = None
    while True:
        try:
            carried = (await read_input(client, id, run_id)).carried
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or later is None:
                raise
            raise ValueError(
                f"at={at}: the namespace does not keep the beginning of run {id!r} any more; "
                f"iterations from {later} on can be forked"
            ) from error
        if carried is None or at > carried.loop.iteration:
            return await read_link(client, id, run_id)
        later = carried.loop.iteration + 1
        run_id = (await read_start(client, id, run_id)).continued_execution_run_id


async def _conversation(
    chain: Chain, link: RecordedLink, at: int, before: ConversationBefore, is_closed: bool
) -> list[Message]:
    if before.messages is not None:
        return before.messages
    if is_closed and at == before.last + 1:
        return await conversation_at_end(chain.client, chain.workflow_id, link)
    raise ValueError(_out_of_range(chain.workflow_id, at, before, is_closed=is_closed))


def _out_of_range(id: str, at: int, before: ConversationBefore, *, is_closed: bool) -> str:
    last = before.last + 1 if is_closed else max(before.last, 1)
    state = (
        f"has ended after iteration {before.last}"
        if is_closed
        else f"is at iteration {before.last}"
    )
    return f"at={at}: run {id!r} {state}; expected an iteration from 1 to {last}"


def _require_question(chain: Chain, at: int, messages: list[Message]) -> None:
    if messages and messages[-1].role == "assistant":
        raise ValueError(
            f"at={at}: there, run {chain.workflow_id!r} has given its answer: add the next message "
            "(steer), or fork before an earlier iteration"
        )


def _agent(input: RunInput) -> Agent:
    return with_others(input.agent, input.agents)


async def _start(chain: Chain, described: WorkflowExecutionDescription, at: int) -> StartOptions:
    attributes, memo = described.typed_search_attributes, dict(await described.memo())
    kept = {name: value for name, value in memo.items() if name not in _OWN_MEMO}
    origin = ForkOf(run=chain.workflow_id, run_id=await chain.origin(), at=at)
    priority = described.raw_description.workflow_execution_info.priority
    return StartOptions(
        memo={**kept, FORK_OF: origin.model_dump(by_alias=True)},
        tenant=attributes.get(TENANT) or priority.fairness_key or None,
        tenant_weight=(priority.fairness_weight or None) if priority.fairness_key else None,
        priority=priority.priority_key or None,
        origin=chain.workflow_id,
    )
