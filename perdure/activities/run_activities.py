"""The activities of a run, by the names of `perdure.protocol.activities`; models that are mocked or
prompted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from os import PathLike
from typing import Any

from temporalio import activity

from ..agents import Agent
from ..conversation import Conversation, ConversationRef, DigestMismatchError
from ..errors import ModelError, RunCancelled
from ..guardrails import GuardrailResult
from ..history.link import read_input
from ..history.session import session_conversation
from ..messages import Message, ModelReply
from ..options import RunOptions
from ..payloads.failures import bytes_as_sent, require_recordable
from ..protocol import activities
from ..protocol.activities import ModelInput
from ..protocol.inventory import Inventory
from ..providers.base import PROVIDER_KIND, CallSeries
from ..providers.mock import MockedModel
from ..providers.prices import Prices
from ..providers.prompted.call import PromptedCall
from ..redaction import redact, redactor
from ..tool_calls import ToolRequest
from ..tools.context import ToolContext
from ..tools.dispatch import ToolBox
from ..tools.user_loop import UserLoop
from .compaction import Compacting
from .credentials import Credentials
from .failures import inspect_previous_attempt, refusal, typed_failures
from .finishing import finish_call
from .heartbeat import Heartbeat, Readers, heartbeats
from .hooks import Hooks
from .inventory import (
    WorkerInventory,
    is_polled,
    lacking_guardrail,
    lacking_hooks,
    lacking_mocks,
)
from .model import ask_model, ask_with_credentials, price_reply
from .model_attempt import ModelAttempt
from .notices import Notifier
from .run_cache import KnownRun, LinkKey, RunCache, current_link
from .tool_activities import ToolActivities, call_context


def mocked_model(run: KnownRun, input: ModelInput, *, is_honoured: bool) -> MockedModel:
    """Return the stand-in for one call. Raises ConfigurationError if the run has fewer answers.

    Raises ApplicationError on a worker that was not started to honour mock answers.
    """
    if not is_honoured:
        raise refusal(lacking_mocks(), input.offer)
    return MockedModel(run.mock_responses or (), input.mock, reads_calls=not input.prompted)


async def ask_prompted(
    input: ModelInput,
    agent: Agent,
    messages: Sequence[Message],
    options: RunOptions,
    heart: Heartbeat,
    **more: Any,
) -> ModelReply:
    """Return the model's reply, with the tool calls in its text; `more` is as for `ask_model`.

    Streams the final answer only, not the text of steps that may call tools. Raises the errors of
    `ask_model`.
    """
    assert input.prompted
    if input.prompted == "act":
        options = options.model_copy(update={"stream": False, "raw": False})
    # Ids are unique in the conversation, which other runs may have begun; and short, because people
    # type them.
    run = blake2b(current_link().workflow_id.encode(), digest_size=4).hexdigest()
    call = PromptedCall(
        agent,
        input.prompted,
        step=input.step,
        max_steps=options.max_iterations,
        ids=f"{run}-{input.iteration}",
    )
    return call.read(await ask_model(call.agent, call.messages(messages), options, heart, **more))


async def read_session(key: LinkKey, reference: ConversationRef) -> Conversation:
    """Return the conversation at exactly that version. Raises as `read_session_link` does."""
    return await session_conversation(activity.client(), *key, reference)


class RunActivities:
    """All side effects of runs, with the tools, hooks and cached runs of one worker.

    Each raises an `ApplicationError` of one of the types in `perdure.protocol.activities` (see
    `typed_failures`), or an error that Temporal retries.
    """

    def __init__(
        self,
        toolbox: ToolBox,
        hooks: Hooks,
        runs: RunCache,
        loop: UserLoop,
        prices: Prices,
        credentials: Credentials,
        prompt_root: str | PathLike[str] | None = None,
        rates: Mapping[str, float] | None = None,
        mock: bool = False,
        readers: Readers | None = None,
    ) -> None:
        self._readers = readers or Readers()
        self.stock = WorkerInventory(
            toolbox, hooks, prices, credentials, prompt_root, rates or {}, mock=mock
        )
        self.tools = ToolActivities(toolbox, runs, credentials, self._readers)
        self._credentials = credentials
        self._compacting = Compacting(hooks, credentials, loop)
        self._hooks = hooks
        self._runs = runs
        self._loop = loop
        self._prices = prices

    @property
    def all(self) -> Sequence[Callable[..., Any]]:
        """Activities to register."""
        return [
            self.inventory,
            self.call_model,
            self.judge,
            self.instruct,
            self.compact,
            self.record,
            self.load_piece,
            self.measure,
            is_polled,
            *Notifier(self.stock.toolbox.allowed).all,
            finish_call,
            *self.tools.all,
        ]

    @activity.defn(name=activities.INVENTORY)
    async def inventory(self, input: activities.InventoryInput) -> Inventory:
        """Return this worker's tools and hooks for the agent, before the first model call costs
        anything.

        Also caches the run if the inventory is complete. A local activity returns the missing
        things; an ordinary one is offered to other workers.
        """
        with typed_failures():
            if activity.info().is_local:
                return await self._inventory(input, may_ask=False)
            async with heartbeats():
                return await self._inventory(input, may_ask=True)

    async def _inventory(self, input: activities.InventoryInput, *, may_ask: bool) -> Inventory:
        link = current_link()
        begun = input.beginning or await read_input(activity.client(), *link)
        carried = begun.carried
        run = self._runs.new_run(link.run_id, begun, carried.first_run_id if carried else "")
        inventory = await self.stock.for_run(run, may_ask=may_ask)
        if inventory.is_final:
            run.offer(inventory)
            self._runs.add(link.workflow_id, run, None if carried else begun.conversation())
        elif input.offer and inventory.lacking:
            raise refusal(inventory.lacking, input.offer)
        return inventory

    @activity.defn(name=activities.CALL_MODEL)
    async def call_model(self, input: activities.ModelInput) -> ModelReply:
        """Make one attempt of one model call, on the conversation at exactly the workflow's
        version.

        Raises RunCancelled in a later attempt if the run has been cancelled.
        """
        with typed_failures():
            async with heartbeats(readers=self._readers) as heart:
                attempt = ModelAttempt(heart, input)
                with attempt.leaving():
                    return await self._call_model(input, heart, attempt)

    async def _call_model(
        self, input: ModelInput, heart: Heartbeat, attempt: ModelAttempt
    ) -> ModelReply:
        seen = await inspect_previous_attempt()
        if seen.is_cancelled:
            raise RunCancelled("The run was cancelled")
        run, messages = await self._runs.messages_at(input.conversation)
        run = run.with_model(input.model) if input.model else run
        heart.stream_seconds = run.stream_seconds
        attempt.begin(seen, speaks=run.options.stream and input.prompted != "act")
        stand_in = mocked_model(run, input, is_honoured=self.stock.mock) if input.mock else None
        ask = partial(
            partial(ask_prompted, input) if input.prompted else ask_model,
            messages=messages,
            options=run.options,
            heart=heart,
            with_tools=input.with_tools,
            loop=self._loop,
            stand_in=stand_in,
            series=_series(run, input),
            attempt=attempt,
        )

        def called(agent: Agent) -> Agent:
            return agent.with_fallback(input.fallback).with_only(input.tools)

        named = called(run.agent) if input.fallback or input.tools is not None else run.agent
        try:
            if run.credential_ids:
                reply = await ask_with_credentials(
                    self._credentials, run, input.offer, lambda agent: ask(called(agent))
                )
            else:
                reply = await ask(named)
        except ModelError as error:
            if error.usage is not None:
                error.cost_usd = self._prices.of_call(named, error.usage)
            raise
        attempt.count_lost(reply, messages)
        return reply if stand_in else price_reply(reply, named, self._prices)

    @activity.defn(name=activities.JUDGE)
    async def judge(self, input: activities.JudgeInput) -> GuardrailResult:
        """Return the verdict of a guardrail, or of a tool's own approval function.

        Plain functions run in a local activity, async ones in an ordinary one.
        """
        with typed_failures():
            if activity.info().is_local:
                return await self._judge(input)
            async with heartbeats():
                return await self._judge(input)

    async def _judge(self, input: activities.JudgeInput) -> GuardrailResult:
        if input.point == "approval":
            return await self.tools.check_approval(input)
        run, subject = await self._subject(input)
        if input.point == "tools":
            return await self._prepare_tools(run, input, *subject)
        assert run.options.guardrails is not None
        if lacking := lacking_guardrail(self._hooks, run.options, input.point):
            raise refusal(lacking, input.offer)
        name, context = run.options.guardrails, _context(run, input.request)
        if input.message is not None:
            verdict: GuardrailResult = await self._hooks.judge_output(
                name, run.agent, subject[0], context
            )
        else:
            verdict = await self._hooks.judge(name, input.point, *subject, context=context)
        verdict = redactor().value(verdict)
        require_recordable(verdict, f"The rewrite of the {input.point} guardrail")
        return verdict

    async def _prepare_tools(
        self, run: KnownRun, input: activities.JudgeInput, messages: list[Message]
    ) -> GuardrailResult:
        """Return the tools that the run's function offers the model now."""
        options = run.options
        if lacking := lacking_hooks(self._hooks, options, "prepare_tools"):
            raise refusal(lacking, input.offer)
        assert options.prepare_tools is not None
        context = replace(_context(run, None), iteration=input.iteration, conversation=messages)
        step = redactor().value(
            await self._hooks.prepare_tools(options.prepare_tools, run.agent, context)
        )
        require_recordable(step, f"The tools that {options.prepare_tools!r} chose")
        return step

    async def _subject(self, input: activities.JudgeInput) -> tuple[KnownRun, tuple[Any, ...]]:
        """Return the run, and what its guardrail judges: the conversation, a tool call's name and
        arguments, or the model's message.
        """
        if input.conversation is not None:
            run, messages = await self._runs.messages_at(input.conversation)
            return run, (_copies(messages),)
        run = await self._runs.current()
        if input.request is not None:
            return run, (input.request.name, input.request.arguments)
        return run, (input.message,)

    @activity.defn(name=activities.INSTRUCT)
    async def instruct(self, input: activities.InstructInput) -> str:
        """Return the instructions of a function. Its errors are retried a few times."""
        async with heartbeats(), asyncio.timeout(activities.JUDGE_SECONDS):
            run = await self._runs.current()
            if lacking := lacking_hooks(self._hooks, run.options, "instructions"):
                raise refusal(lacking, input.offer)
            name = str(run.options.instructions_by)
            return redact(
                await self._hooks.instruct(name, run.inputs, _context(run, None)), run.agent
            )

    @activity.defn(name=activities.COMPACT)
    async def compact(self, input: activities.CompactInput) -> str:
        """Return a summary of the messages about to be dropped. Its errors are retried a few
        times.
        """
        # With an offer, the compactor runs once: further attempts are for workers that lack it.
        once = typed_failures() if input.offer else nullcontext()
        with once:
            async with heartbeats(), asyncio.timeout(activities.COMPACT_SECONDS):
                return await self._summary(input)

    async def _summary(self, input: activities.CompactInput) -> str:
        run, messages = await self._runs.messages_at(input.conversation)
        if lacking := lacking_hooks(self._hooks, run.options, "compactor"):
            raise refusal(lacking, input.offer)
        dropped = _copies(messages[input.head : input.head + input.drop])
        return await self._compacting.summary(
            dropped, run.options, run_id=current_link().workflow_id
        )

    @activity.defn(name=activities.RECORD)
    async def record(self, input: activities.ConversationInput) -> None:
        """Bring a part of the conversation into the history, as this activity's input.

        Runs before an activity whose own input would be too large with it. That activity holds the
        run if the recorded parts do not fit together.
        """
        with typed_failures(), suppress(DigestMismatchError):
            async with heartbeats():
                await self._runs.messages_at(input.conversation)

    @activity.defn(name=activities.LOAD_PIECE)
    async def load_piece(self, input: activities.PieceInput) -> list[Message]:
        """Return a piece of the conversation that this link continues, from the history of the link
        before it.
        """
        with typed_failures():
            async with heartbeats():
                link = LinkKey(input.workflow_id or current_link().workflow_id, input.run_id)
                read = read_session if input.of_session else None
                messages = await self._runs.messages_of(link, input.reference, read)
                if link.workflow_id != current_link().workflow_id and input.end == len(messages):
                    self._runs.take(input.reference, messages)
                return messages[input.start : input.end]

    @activity.defn(name=activities.MEASURE)
    async def measure(self, input: dict[str, Any]) -> int:
        """Return a value's size in a history in bytes, compressed and without externally stored
        payloads.
        """
        return await bytes_as_sent(activity.client(), input)


def _series(run: KnownRun, input: ModelInput) -> CallSeries:
    """Return the series of calls that this one belongs to: the run's, or its session's."""
    tools = any(tool.kind != PROVIDER_KIND for tool in run.recorded_agent.tools or ())
    acts_again = tools and (run.options.max_iterations > 1 or bool(input.prompted))
    id = run.session or current_link().workflow_id
    return CallSeries(
        blake2b(id.encode(), digest_size=16).hexdigest(), bool(run.session) or acts_again
    )


def _context(run: KnownRun, request: ToolRequest | None) -> ToolContext:
    """Return the context of a guardrail: of the run, and of the call that it judges."""
    if request is not None:
        return call_context(run, request)
    return ToolContext(run_id=current_link().workflow_id, deps=run.open_deps)


def _copies(messages: Sequence[Message]) -> list[Message]:
    """Copy the messages for user callbacks, which may change them without changing the model's
    input.
    """
    return [message.model_copy(deep=True) for message in messages]
