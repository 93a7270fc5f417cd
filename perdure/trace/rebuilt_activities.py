"""The spans of one link's activities and timers, from its history."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from temporalio.api.failure.v1 import Failure
from temporalio.client import Client

from ..guardrails import JudgedOutput
from ..history.events import RecordedActivity, decode, error_of, is_refusal
from ..history.link import RecordedLink
from ..json_types import JsonView
from ..messages import Message, ModelReply
from ..protocol import activities
from ..tool_calls import PreparedRun
from .describe import Describer, SpanEvent, SpanFacts, Tries, described_error

PAUSES = ("model retry", "is executed again")
"""Substrings of the summaries of retry timers."""


async def add_pending(client: Client, workflow_id: str, link: RecordedLink) -> None:
    """Complete an open link's activities with the server's state of them, which no history contains
    before they end.

    Raises `RPCError`.
    """
    description = await client.get_workflow_handle(workflow_id, run_id=link.run_id).describe()
    pending = {each.activity_id: each for each in description.raw_description.pending_activities}
    for activity in link.work.activities:
        if activity.known_end is None and (known := pending.get(activity.id)):
            activity.attempts, activity.worker = known.attempt, known.last_worker_identity
            if known.HasField("last_started_time"):
                activity.started = known.last_started_time.ToNanoseconds()
            if known.HasField("last_failure"):
                activity.last_failure = known.last_failure


async def activity_spans(
    client: Client, describer: Describer, link: RecordedLink, local_inputs: JsonView
) -> list[SpanFacts]:
    """Describe model calls, tool executions, guardrails and compactors. Raises like `decode`."""
    reader = _Activities(client, describer, link, local_inputs)
    return [built for activity in link.work.activities if (built := await reader.span(activity))]


async def timer_spans(client: Client, describer: Describer, link: RecordedLink) -> list[SpanFacts]:
    """Describe the pauses before retries."""
    built: list[SpanFacts] = []
    for timer in link.work.timers:
        why = await decode(client, timer.input, str) if timer.input else ""
        if any(pause in why for pause in PAUSES):
            id = describer.ids.activity(link.run_id, f"timer {timer.id}")
            said = {"perdure.run.id": describer.ids.workflow_id, "perdure.wait.kind": "retry"}
            facts = SpanFacts("wait retry", id, describer.ids.agent, {**said})
            facts.start, facts.end = timer.scheduled, timer.ended
            built.append(facts)
    return built


class _Activities:
    def __init__(
        self, client: Client, describer: Describer, link: RecordedLink, local_inputs: JsonView
    ) -> None:
        self._client = client
        self._describer = describer
        self._link = link
        self._local_inputs = local_inputs
        self._tries: Counter[int] = Counter()
        self._conversation = link.conversation(until=-1)
        self._further = deque(link.references)

    async def span(self, activity: RecordedActivity) -> SpanFacts | None:
        """Describe the activity; None for one without a span, such as a refused one. Raises like
        `decode`.
        """
        if is_refusal(activity.failure) and not activity.executions:
            return None
        facts = await self._facts(activity)
        if facts is None:
            return None
        if activity.worker:
            facts.attributes["perdure.worker"] = activity.worker
        if activity.known_end is None:
            facts.attributes["perdure.unfinished"] = True
        facts.start = activity.scheduled if activity.started is None else activity.started
        facts.end = activity.known_end
        if activity.last_failure is not None:
            facts.events.append(await self._failure(activity, activity.last_failure, facts.start))
        return facts

    async def _facts(self, activity: RecordedActivity) -> SpanFacts | None:
        if activity.is_tool:
            return await self._tool(activity)
        match activity.type:
            case activities.CALL_MODEL:
                return await self._chat(activity)
            case activities.JUDGE:
                end = await activity.outcome(self._client, JudgedOutput)
                asked = await self._input(activity, activities.JudgeInput)
                return self._describer.judge(asked, end, self._link.run_id, activity.id)
            case activities.COMPACT:
                end = await activity.outcome(self._client, str)
                compacted = await decode(self._client, activity.input, activities.CompactInput)
                return self._describer.compact(
                    compacted, end, self._link.run_id, activity.id, _tries(activity)
                )
        return None

    async def _chat(self, activity: RecordedActivity) -> SpanFacts:
        input = await decode(self._client, activity.input, activities.ModelInput)
        # Counted, because the inputs of older runs do not contain it.
        input = input.model_copy(update={"earlier": self._tries[input.iteration]})
        self._tries[input.iteration] += 1
        messages: list[Message] = []
        if self._describer.with_content:
            messages = self._messages(input.conversation.version)
        end = await activity.outcome(self._client, ModelReply)
        return self._describer.chat(input, end, _tries(activity), messages)

    def _messages(self, version: int) -> list[Message]:
        """Return the model's input messages; call this in the order of the conversation."""
        while self._further and self._further[0].version <= version:
            self._conversation.follow(self._further.popleft())
        return list(self._conversation.messages)

    async def _tool(self, activity: RecordedActivity) -> SpanFacts | None:
        input = await self._input(activity, activities.ToolInput)
        if input is None:
            return None
        end = await activity.outcome(self._client, PreparedRun)
        if isinstance(end, PreparedRun) and end.messages is not None:
            return None  # the prepared run has the span
        return self._describer.tool(
            input.request, end, earlier=input.earlier, tries=_tries(activity)
        )

    async def _input(self, activity: RecordedActivity, type_: type[Any]) -> Any:
        if not activity.is_local:
            return await decode(self._client, activity.input, type_)
        known = self._local_inputs.get(activity.id)
        return known if isinstance(known, type_) else None

    async def _failure(self, activity: RecordedActivity, failure: Failure, time: int) -> SpanEvent:
        """Return the known facts of earlier attempts: their number, and the failure of the last
        one.
        """
        kind, text = described_error(await error_of(self._client, failure))
        said: dict[str, str | int] = {
            "error.type": kind,
            "perdure.error.message": self._describer.text(text),
        }
        if is_refusal(failure):
            return "refused", time, {**said, "perdure.refusals": activity.refusals}
        return "attempt failed", time, {**said, "perdure.attempts": max(activity.attempts, 1) - 1}


def _tries(activity: RecordedActivity) -> Tries:
    return Tries(max(activity.executions, 1), activity.refusals)
