"""The loop's effects on Temporal: activities, timers, signals, the decisions of guardrails and of
persons.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from ..conversation import Conversation
from ..errors import ModelError, RunError
from ..event_data import EventType, HoldReason, LoggedData
from ..guardrails import GuardrailResult, JudgedOutput
from ..loop.effects import Calling, Cancelled
from ..loop.limits import Allowance, ChildEnd, time_is_over
from ..loop.state import LoopState
from ..messages import Message, ModelReply, ToolResult
from ..protocol import activities
from ..protocol.outcome import HeldUp
from ..text import count_of, one_line
from ..tool_calls import CHECK_FAILED, Approval, Asked, ToolRequest, ToolSpec
from ..trace_ids import idempotency_key
from ..unknown_outcomes import Reconciled, UnknownCall
from .approvers import report_votes
from .logging import goes_on, person_waited_for, tries_again, waits, workers_were_lost
from .offers import Offers
from .pacing import Pacing
from .pauses import await_permission, unbegun_attempt
from .policies import (
    COMPACTION_RETRIES,
    LOST_WORKER_RETRIES,
    MARGIN,
    OFFERED_RETRIES,
    CompactionError,
    describe_failure,
    left_by,
    left_in,
    model_error,
    timed_out,
    worker_was_lost,
)
from .recording import record_ahead
from .run_state import RunState
from .tool_runs import ToolRuns
from .ui import about_call, held_up_summary
from .waiting import activity_result, now, result_unless_cancelled, wait_until, wait_until_done


def _summary(input: activities.JudgeInput, label: str) -> str:
    what = f"{input.point} {'check' if input.point == 'approval' else 'guardrail'}"
    if input.request is None:
        return f"{label} · {what}"
    return about_call(what, input.request.name, input.request.arguments)


Offer = activities.Offer | None


class TemporalEffects:
    """The effects of one link of a run; see `perdure.loop.effects.Effects`."""

    def __init__(self, state: RunState, on_checkpoint: Callable[[], Awaitable[None]]) -> None:
        self._state = state
        self._offers = Offers(state)
        self._pacing = Pacing(state) if state.inventory.paced else None
        self._tool_runs = ToolRuns(state)
        self._on_checkpoint = on_checkpoint
        self._failed_call: ModelError | None = None
        self._tried = (0, 0)
        self._before: activities.CallSoFar | None = None

    @property
    def version(self) -> int:
        return self._state.input.loop_version

    def cancelled(self) -> bool:
        return self._state.cancelled

    def has_steering(self) -> bool:
        return bool(self._state.steering)

    def drain_steering(self) -> list[str]:
        return self._state.drain_steering()

    def now(self) -> float:
        return now()

    def random(self) -> float:
        return workflow.random().random()

    def emit(
        self, type: EventType, iteration: int, data: LoggedData, *, call_id: str | None = None
    ) -> None:
        self._state.events.append(type, iteration, data, time=now(), call_id=call_id)

    async def checkpoint(self, state: LoopState) -> None:
        await self._on_checkpoint()

    async def hand_off(self, path: str) -> None:
        await self._state.hand_off(path)

    async def sleep(self, seconds: float, why: str) -> None:
        failed, self._failed_call = self._failed_call, None
        if failed is not None:
            tries_again(failed, seconds)
            until = now() + seconds
            self._state.held_up = HeldUp(
                kind=failed.kind, why=one_line(failed.account, 300), until=until
            )
        summary = held_up_summary(self._state.label, why, failed.kind if failed else "", seconds)
        is_cancelled = await wait_until(self.cancelled, seconds, summary)
        self._state.held_up = None
        if is_cancelled:
            raise Cancelled

    def is_held_for(self, reason: HoldReason) -> bool:
        return self._state.is_held_for(reason)

    async def hold(self, error: RunError, reason: HoldReason) -> None:
        model = self._state.other_model
        await self._state.hold(error, reason)
        if self._state.other_model is not model:
            self._before = None  # Another model's text is not a prefix of this one's answer.

    async def call_model(self, conversation: Conversation, calling: Calling) -> ModelReply:
        if conversation.unrecorded_operations:
            await record_ahead(conversation)
        self._state.unread = 0
        while True:
            try:
                return await self._call_model(
                    partial(self._attempt, conversation, calling), calling.fallback
                )
            except ActivityError as error:
                if unbegun := unbegun_attempt(error):
                    await await_permission(self._state, unbegun)
                    continue
                if not worker_was_lost(error):
                    raise
                workers_were_lost(error)
            if (deadline := self._state.deadline) is not None and now() > deadline:
                raise time_is_over(
                    self._state.options, "it passed while the workers of a model call were lost"
                )

    async def _call_model(
        self, attempt: Callable[..., Awaitable[ModelReply]], fallback: int
    ) -> ModelReply:
        try:
            if self._pacing is not None:
                return await self._pacing.call(attempt, fallback)
            return await attempt(LOST_WORKER_RETRIES)
        except ActivityError as error:
            return await self._offers.run_elsewhere(error, partial(attempt, OFFERED_RETRIES))

    async def _attempt(
        self, conversation: Conversation, calling: Calling, policy: RetryPolicy, offer: Offer = None
    ) -> ModelReply:
        state, earlier = self._state, self._count_try(calling.iteration)
        handle = workflow.start_activity(
            activities.CALL_MODEL,
            activities.ModelInput(
                conversation=conversation.ref(),
                earlier=earlier,
                before=self._before,
                mock=0 if state.inventory.mock_responses is None else state.loop.iterations + 1,
                offer=offer,
                model=state.other_model,
                **calling._asdict(),
            ),
            result_type=ModelReply,
            start_to_close_timeout=timedelta(seconds=state.options.llm_timeout) + MARGIN,
            heartbeat_timeout=state.heartbeat_timeout,
            retry_policy=policy,
            summary=state.model_call + (f" · try {earlier + 1}" if earlier else ""),
        )
        try:
            await wait_until_done(handle, self._state)
            reply: ModelReply = await result_unless_cancelled(handle, self._state)
            self._before = None
            return reply
        except ActivityError as error:
            if worker_was_lost(error):
                self._before = left_by(error, self._before, policy.maximum_attempts)
            if unbegun := unbegun_attempt(error):
                self._tried = (calling.iteration, earlier - 1)
                if unbegun.attempt > 1:
                    self._before = left_in([unbegun.told], self._before, unbegun.attempt - 1)
            if known := model_error(error):
                self._failed_call, self._before = known, known.so_far
                raise known from error
            raise

    def _count_try(self, iteration: int) -> int:
        """Return the number of earlier model calls in this iteration."""
        last, earlier = self._tried
        self._tried = (iteration, earlier + 1 if iteration == last else 0)
        return self._tried[1]

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        return await self._tool_runs.run(request)

    async def run_agent(self, request: ToolRequest, allowance: Allowance) -> ChildEnd:
        return await self._tool_runs.run_agent(request, allowance)

    async def prepare_tools(self, conversation: Conversation, iteration: int) -> GuardrailResult:
        return await self.judge_input(conversation, "tools", iteration)

    async def judge_input(
        self, conversation: Conversation, point: Any = "input", iteration: int = 0
    ) -> JudgedOutput:
        async def start(offer: Offer) -> JudgedOutput:
            # A local activity's input is not in the history.
            if is_recorded := offer is not None or self._state.inventory.hooks[point] == "async":
                await record_ahead(conversation)
            reference = conversation.ref(record=is_recorded)
            asked = activities.JudgeInput(
                point=point, conversation=reference, iteration=iteration, offer=offer
            )
            return await self._judge(asked)

        return await self._offers.run(start)

    async def judge_output(self, message: Message) -> JudgedOutput:
        return await self._ask(self._offers, point="output", message=message)

    async def judge_tool(self, request: ToolRequest) -> GuardrailResult:
        return await self._ask(self._offers, point="tool", request=request)

    async def judge_edited(self, request: ToolRequest) -> GuardrailResult:
        """Ask about arguments that a person has edited; without a verdict the decision is refused,
        not held.
        """
        return await self._ask(Offers(self._state, may_hold=False), point="tool", request=request)

    async def _ask(self, offers: Offers, **asked: Any) -> JudgedOutput:
        return await offers.run(
            lambda offer: self._judge(activities.JudgeInput(offer=offer, **asked))
        )

    async def _judge(self, input: activities.JudgeInput) -> JudgedOutput:
        try:
            return await self._judged(input)
        except ActivityError as error:
            if not timed_out(error):
                raise
            if input.point == "approval":
                return JudgedOutput(allowed=True, ask=CHECK_FAILED.format("it timed out"))
            return JudgedOutput(
                allowed=False, reason=f"the {input.point} guardrail failed: it timed out"
            )

    async def _judged(self, input: activities.JudgeInput) -> JudgedOutput:
        """Ask in a local activity, which costs less, where the function is `plain` and this worker
        has it.
        """
        seconds = activities.JUDGE_SECONDS
        if self._kind_of_judge(input) != "plain" or input.offer is not None:
            summary = _summary(input, self._state.label)
            return await activity_result(
                self._state, activities.JUDGE, input, JudgedOutput, seconds, summary
            )
        local = workflow.start_local_activity(
            activities.JUDGE,
            input,
            result_type=JudgedOutput,
            start_to_close_timeout=timedelta(seconds=seconds) + MARGIN,
            retry_policy=LOST_WORKER_RETRIES,
        )
        return await result_unless_cancelled(local, self._state)

    def _kind_of_judge(self, input: activities.JudgeInput) -> str:
        if input.point != "approval" or input.request is None:
            return self._state.inventory.hooks[input.point]
        return self._state.tools[input.request.name].approval_check or "plain"

    async def compact(self, conversation: Conversation, head: int, drop: int) -> str:
        """Compact as `Effects.compact` does. Raises CompactionError when the compactor fails or
        takes too long.
        """

        async def start(offer: Offer) -> str:
            await record_ahead(conversation)
            input = activities.CompactInput(
                conversation=conversation.ref(), head=head, drop=drop, offer=offer
            )
            summary = f"{self._state.label} · compact {count_of(drop, 'message')}"
            return await activity_result(
                self._state,
                *(activities.COMPACT, input, str, activities.COMPACT_SECONDS),
                summary,
                COMPACTION_RETRIES,
            )

        try:
            return await self._offers.run(start)
        except ActivityError as error:
            raise CompactionError(describe_failure(error)[1]) from error

    async def check_approval(self, request: ToolRequest) -> GuardrailResult:
        return await self._ask(self._offers, point="approval", request=request)

    def idempotency_key(self, request: ToolRequest) -> str:
        return idempotency_key(workflow.info().run_id, request.iteration, request.index)

    async def reconcile(self, request: ToolRequest, earlier: UnknownCall) -> Reconciled:
        return await self._tool_runs.reconcile(request, earlier)

    def misfits(self, request: ToolRequest) -> list[str]:
        # Imported where it is used: readers of runs import this module too, and rarely execute
        # this.
        from ..tools.validation import call_problems

        tool, spec = self._state.offered_agent.tool(request.name), self._state.tools[request.name]
        return call_problems(tool, spec, request.arguments) if tool else []

    async def approve(self, request: ToolRequest, asked: Asked) -> Approval:
        """Wait for approval as `Effects.approve` does; the run's deadline ends the wait too."""
        state, approvals = self._state, self._state.approvals
        spec = state.tools.get(request.name) or ToolSpec(name=request.name)
        opened = approvals.open(
            request, spec, asked, self.judge_edited if "tool" in state.inventory.hooks else None
        )
        waits(request, asked)
        ends = [end for end in (state.deadline, asked.deadline) if end is not None]

        def is_over() -> bool:
            return state.cancelled or opened.approval is not None

        if spec.approvers:
            report_votes(opened, partial(state.emit, call_id=request.call_id))
        why = about_call("denied if not decided", request.name, request.arguments)
        await wait_until(is_over, max(0.0, min(ends) - now()) if ends else None, why)
        approvals.close(opened)
        person_waited_for(opened.pending, opened.approval, cancelled=state.cancelled)
        if opened.approval is None and state.cancelled:
            raise Cancelled
        if (
            opened.approval is None and min(ends) != asked.deadline
        ):  # The loop checks its limits next.
            return Approval(approved=False, reason="the time of the run is over (max_seconds)")
        if opened.approval is None:
            opened.approval = approvals.expire(opened, asked)
        goes_on(request, asked, opened.approval)
        state.person_decided = state.loop.iteration
        return opened.approval
