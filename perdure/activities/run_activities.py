"""The activities of a run, by the names that the workflow calls them by (`perdure.protocol.activities`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from os import PathLike
from typing import Any

from temporalio import activity

from ..conversation import Conversation
from ..errors import RunCancelled
from ..guardrails import GuardrailResult
from ..history.link import read_input
from ..messages import Message, ModelReply
from ..payloads.limits import require_recordable
from ..protocol import activities
from ..protocol.inventory import Inventory
from ..protocol.run import RunInput
from ..providers.prices import Prices
from ..redaction import redactor
from ..tools.dispatch import ToolBox
from ..tools.user_loop import UserLoop
from .compacting import Compacting
from .credentials import Credentials
from .failures import typed_failures
from .heartbeat import cancelled_meanwhile, heartbeats
from .hooks import Hooks, judged_output
from .mocked import mocked_model
from .model import ask_model, priced
from .offered import refusal
from .permits import is_polled
from .prompted import ask_prompted
from .run_cache import KnownRun, LinkKey, RunCache, current_link
from .session_reading import read_session
from .stock import Stock, lacking_compactor, lacking_guardrail
from .tool_activities import ToolActivities
from .unstarted import end_unstarted
from .with_credentials import ask_with_credentials


class RunActivities:
    """Everything that runs do in the world, with the tools, hooks and known runs of one worker.

    Each raises an `ApplicationError` of one of the types that `perdure.protocol.activities` names (see
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
    ) -> None:
        self.stock = Stock(toolbox, hooks, prices, credentials, prompt_root, rates or {}, mock=mock)
        self.tools = ToolActivities(toolbox, runs, credentials)
        self._credentials = credentials
        self._compacting = Compacting(hooks, credentials, loop)
        self._hooks = hooks
        self._runs = runs
        self._loop = loop
        self._prices = prices

    @property
    def all(self) -> Sequence[Callable[..., Any]]:
        """The activities to register."""
        return [
            self.inventory,
            self.call_model,
            self.judge,
            self.compact,
            self.record,
            self.load_piece,
            self.measure,
            end_unstarted,
            is_polled,
            *self.tools.all,
        ]

    @activity.defn(name=activities.INVENTORY)
    async def inventory(self, input: activities.InventoryInput) -> Inventory:
        """Find out which tools and hooks this worker has for the agent, before the first model call costs anything.

        Remembers the run, too, if nothing is lacking. A local activity says what is; an ordinary one is offered to
        other workers.
        """
        with typed_failures():
            if activity.info().is_local:
                return await self._inventory(input, may_ask=False)
            async with heartbeats():
                return await self._inventory(input, may_ask=True)

    async def _inventory(self, input: activities.InventoryInput, *, may_ask: bool) -> Inventory:
        link = current_link()
        begun = input.beginning or await read_input(activity.client(), *link)
        run = self._runs.new_run(link.run_id, begun)
        inventory = await self.stock.for_run(run, may_ask=may_ask)
        if inventory.is_final:
            run.offer(inventory)
            self._runs.add(link.workflow_id, run, _beginning(begun))
        elif input.offer and inventory.lacking:
            raise refusal(inventory.lacking, input.offer)
        return inventory

    @activity.defn(name=activities.CALL_MODEL)
    async def call_model(self, input: activities.ModelInput) -> ModelReply:
        """One attempt of one model call, on the conversation at exactly the version that the workflow means.

        Raises RunCancelled in a further attempt, when the run was cancelled meanwhile.
        """
        with typed_failures():
            async with heartbeats() as heart:
                if await cancelled_meanwhile():
                    raise RunCancelled("The run was cancelled")
                run, messages = await self._runs.messages_at(input.conversation)
                if run.options.stream and input.prompted != "act":
                    heart.speak(input.iteration, activity.info().attempt)
                stand_in = mocked_model(run, input, is_honoured=self.stock.mock) if input.mock else None
                ask = partial(
                    partial(ask_prompted, input) if input.prompted else ask_model,
                    messages=messages,
                    options=run.options,
                    heart=heart,
                    with_tools=input.with_tools,
                    loop=self._loop,
                    stand_in=stand_in,
                )
                named = run.agent.with_fallback(input.fallback) if input.fallback else run.agent
                if run.credential_ids:
                    reply = await ask_with_credentials(
                        self._credentials, run, input.offer, lambda agent: ask(agent.with_fallback(input.fallback))
                    )
                else:
                    reply = await ask(named)
                return reply if stand_in else await priced(reply, named, self._prices)

    @activity.defn(name=activities.JUDGE)
    async def judge(self, input: activities.JudgeInput) -> GuardrailResult:
        """A guardrail's verdict, or whether a tool's own function wants an approval.

        Plain ones are asked by a local activity, async ones by an ordinary one.
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
        assert run.options.guardrails is not None
        if lacking := lacking_guardrail(self._hooks, run.options, input.point):
            raise refusal(lacking, input.offer)
        verdict = await self._hooks.judge(
            run.options.guardrails, input.point, *subject, run_id=current_link().workflow_id
        )
        verdict = redactor().value(verdict)
        if input.message is not None:
            verdict = judged_output(run.agent, input.message, verdict)
        require_recordable(verdict, f"The rewrite of the {input.point} guardrail")
        return verdict

    async def _subject(self, input: activities.JudgeInput) -> tuple[KnownRun, tuple[Any, ...]]:
        if input.conversation is not None:
            run, messages = await self._runs.messages_at(input.conversation)
            return run, (_copies(messages),)
        run = await self._runs.current()
        if input.request is not None:
            return run, (input.request.name, input.request.arguments)
        return run, (input.message,)

    @activity.defn(name=activities.COMPACT)
    async def compact(self, input: activities.CompactInput) -> str:
        """A summary of the messages that are about to be dropped. What it raises is retried a few times."""
        # Offered to other workers, it is tried once: the further attempts are for those that lack the compactor.
        once = typed_failures() if input.offer else nullcontext()
        with once:
            async with heartbeats(), asyncio.timeout(activities.COMPACT_SECONDS):
                return await self._summary(input)

    async def _summary(self, input: activities.CompactInput) -> str:
        run, messages = await self._runs.messages_at(input.conversation)
        if lacking := lacking_compactor(self._hooks, run.options):
            raise refusal(lacking, input.offer)
        dropped = _copies(messages[input.head : input.head + input.drop])
        return await self._compacting.summary(dropped, run.options, run_id=current_link().workflow_id)

    @activity.defn(name=activities.RECORD)
    async def record(self, input: activities.ConversationInput) -> None:
        """Bring a part of the conversation into the history, as this activity's input.

        Called before an activity whose own input would be too large with it.
        """
        with typed_failures():
            async with heartbeats():
                await self._runs.messages_at(input.conversation)

    @activity.defn(name=activities.LOAD_PIECE)
    async def load_piece(self, input: activities.PieceInput) -> list[Message]:
        """A piece of the conversation that this link starts from, out of the history of the link before it."""
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
        """How many bytes a value takes in a history, after compression, and without what is stored elsewhere."""
        return sum(payload.ByteSize() for payload in await activity.client().data_converter.encode([input]))


def _beginning(begun: activities.Beginning | RunInput) -> Conversation:
    """The conversation that a run begins with, as far as its input holds it."""
    if isinstance(begun, RunInput):
        return begun.conversation()
    if begun.reference is None:
        return Conversation.recorded(begun.messages)
    return Conversation.recorded(begun.messages, version=begun.reference.version, digest=begun.reference.digest)


def _copies(messages: Sequence[Message]) -> list[Message]:
    """Copies for the user's callbacks, which may change them without changing what the model is sent."""
    return [message.model_copy(deep=True) for message in messages]
