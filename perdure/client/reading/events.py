"""The position of a reader in a run's events, and the live text and progress of open calls."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo

from ...event_data import EventType
from ...events import RunEvent, progress_data
from ...history.chain import Chain
from ...protocol import activities
from ...protocol.activities import StreamedText
from ...tool_calls import ToolProgress, progress_of

logger = logging.getLogger("perdure")

_TOOLS = (activities.TOOL_PREFIX, activities.RUN_TOOL)


class Speech(NamedTuple):
    """The text that one attempt of a model call has produced so far."""

    call: str
    """Identifies the text within its link, see `speech_of`."""
    said: StreamedText


class LiveState(NamedTuple):
    """The live text and progress of a link, not recorded yet."""

    speech: Speech | None = None
    """None without an open model call that has produced text."""
    progress: tuple[ToolProgress, ...] = ()
    """The progress of open tool calls that report it."""


async def listen(chain: Chain, run_id: str) -> LiveState:
    """Return the live text and progress of the link, from the server. Raises `RPCError`."""
    tool_heartbeat = list(filter(_has_live_text, await chain.pending_activities(run_id)))
    speaking = next(
        (each for each in tool_heartbeat if each.activity_type.name == activities.CALL_MODEL), None
    )
    working = [each for each in tool_heartbeat if each.activity_type.name.startswith(_TOOLS)]
    told = [await _progress(chain, each) for each in working]
    return LiveState(
        await _speech(chain, speaking) if speaking else None, tuple(filter(None, told))
    )


async def _speech(chain: Chain, speaking: PendingActivityInfo) -> Speech:
    (said,) = await chain.client.data_converter.decode(
        list(speaking.heartbeat_details.payloads), [StreamedText]
    )
    return speech_of(speaking.activity_id, said)


def speech_of(activity_id: str, said: StreamedText) -> Speech:
    """Return the text with its identity: the activity and the attempt that began it."""
    return Speech(f"{activity_id}-{said.attempt}", said)


async def _progress(chain: Chain, working: PendingActivityInfo) -> ToolProgress | None:
    try:
        (told,) = await chain.client.data_converter.decode([working.heartbeat_details.payloads[-1]])
    except Exception as error:
        # The tool's own details, in any form.
        logger.debug("a tool's progress cannot be read: %r", error)
        return None
    return progress_of(told)


def _has_live_text(pending: PendingActivityInfo) -> bool:
    """Return whether the activity has heartbeat details and is not between two attempts."""
    is_started = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    return is_started and bool(pending.heartbeat_details.payloads)


_POSITION = re.compile(
    r"(?P<seq>\d{1,18})"
    r"(?:@(?P<iteration>\d{1,18})\.(?P<call>[\w-]{1,100})"
    r"\.(?P<thinking>\d{1,18})\.(?P<text>\d{1,18})\.(?P<digest>[0-9a-f]{16})"
    r"(?:-(?P<thought>[0-9a-f]{16}))?)?"
)


@dataclass(frozen=True)
class ShownText:
    """The part of the text of one attempt of a model call that the reader has."""

    iteration: int
    call: str
    """The attempt, as `Speech.call` names it."""
    thinking: int = 0
    """Characters."""
    text: int = 0
    digest: str = ""
    """The digest of the shown text, which differs from another attempt's."""
    thought: str = ""
    """The digest of the shown thinking; "" without any."""

    def begins(self, text: str) -> bool:
        """Return whether the shown text is the beginning of this one."""
        return len(text) >= self.text and _digest(text[: self.text]) == self.digest

    def begins_thinking(self, text: str) -> bool:
        """Return whether the shown thinking is the beginning of this one."""
        return len(text) >= self.thinking and self.thought in ("", _digest(text[: self.thinking]))

    def __str__(self) -> str:
        thought = f"-{self.thought}" if self.thought else ""
        return f"@{self.iteration}.{self.call}.{self.thinking}.{self.text}.{self.digest}{thought}"


class Cursor:
    """Gives a reader every event once, and every character of a text once.

    `after` is the `position` or the `seq` of the last event that the reader has. Raises ValueError
    for anything else.
    """

    def __init__(self, after: int | str = 0) -> None:
        self.seq, self._shown = _parse_position(after)
        self._told: tuple[ToolProgress, ...] = ()
        self._thinking: RunEvent | None = None

    @property
    def position(self) -> str:
        """Return the reader's position, from which another cursor continues."""
        return f"{self.seq}{self._shown or ''}"

    def recorded_news(self, event: RunEvent) -> Iterator[RunEvent]:
        """Yield the events for the next one in the log, without the text that the reader has seen
        live.
        """
        shown, self._shown = self._shown, None
        if shown is None or event.iteration != shown.iteration or event.type == "llm_complete":
            self.seq = event.seq
            yield event
        elif event.type == "thinking":
            yield from self._whole_thinking(event, shown)
        elif event.type != "token":
            if _reports_failed_call(event) and (shown.text or shown.thinking):
                shown = yield from self._reset(shown, event.iteration)
            # The call is open, or repeated: its text is still on the screen, unless it failed.
            self.seq, self._shown = event.seq, shown
            yield event.model_copy(update={"position": self.position})
        else:
            yield from self._whole(event, shown)

    def live_news(self, speech: Speech) -> Iterator[RunEvent]:
        """Yield the events for the text since the last time; another attempt begins with
        `text_reset`.
        """
        shown = self._shown
        if shown is None or not _same(shown, speech):
            self._shown = ShownText(speech.said.iteration, speech.call, digest=_digest(""))
            if (
                shown
                and shown.iteration == speech.said.iteration
                and (shown.text or shown.thinking)
            ):
                yield self._event("text_reset", speech.said.iteration)
        yield from self._more("thinking", speech)
        yield from self._more("token", speech)

    def is_news(self, progress: Collection[ToolProgress]) -> bool:
        """Return whether the reader has not seen it yet."""
        return any(each not in self._told for each in progress)

    def progress_news(self, told: tuple[ToolProgress, ...]) -> Iterator[RunEvent]:
        """Yield the events for the progress since the last time.

        Does not advance the position: a reader that resumes here sees them again.
        """
        before, self._told = self._told, told
        for each in told:
            if each not in before:
                event = self._event("tool_progress", each.iteration, **progress_data(each))
                yield event.model_copy(update={"call_id": each.call_id})

    def _whole(self, event: RunEvent, shown: ShownText) -> Iterator[RunEvent]:
        """Yield the recorded text, of which the reader has a part, or a part of an earlier
        attempt's.
        """
        text = event.data["token"]
        if shown.begins(text):
            rest = text[shown.text :]
        else:
            yield from self._reset(shown, event.iteration)
            rest = text
            if self._thinking and self._thinking.iteration == event.iteration:
                yield self._event("thinking", event.iteration, **self._thinking.data)
        self.seq, self._shown = event.seq, None
        if rest:
            yield event.model_copy(update={"data": {"token": rest}})

    def _whole_thinking(self, event: RunEvent, shown: ShownText) -> Iterator[RunEvent]:
        """Yield the recorded thinking, of which the reader has a part, or a part of an earlier
        attempt's.
        """
        text, self._thinking = event.data["token"], event
        if not shown.begins_thinking(text):
            shown = yield from self._reset(shown, event.iteration)
        rest = text[shown.thinking :]
        self.seq, self._shown = event.seq, replace(shown, thinking=len(text), thought=_digest(text))
        if rest:
            yield event.model_copy(update={"data": {"token": rest}, "position": self.position})

    def _reset(self, shown: ShownText, iteration: int) -> Generator[RunEvent, None, ShownText]:
        """Emit `text_reset`, and return the empty text that replaces the shown one."""
        self._shown = nothing = ShownText(shown.iteration, shown.call, digest=_digest(""))
        yield self._event("text_reset", iteration)
        return nothing

    def _more(self, type: Literal["thinking", "token"], speech: Speech) -> Iterator[RunEvent]:
        assert self._shown is not None
        said = speech.said.thinking if type == "thinking" else speech.said.text
        known = self._shown.thinking if type == "thinking" else self._shown.text
        if len(said) <= known:
            return
        if type == "thinking":
            self._shown = replace(self._shown, thinking=len(said), thought=_digest(said))
        else:
            self._shown = replace(self._shown, text=len(said), digest=_digest(said))
        yield self._event(type, speech.said.iteration, token=said[known:])

    def _event(self, type: EventType, iteration: int, **data: Any) -> RunEvent:
        return RunEvent(
            seq=self.seq + 1, type=type, iteration=iteration, data=data, position=self.position
        )


def _reports_failed_call(event: RunEvent) -> bool:
    """Return whether the event reports a failed model call, which is repeated, perhaps with another
    model.
    """
    return event.type == "model_fallback" or (event.type == "status" and "reason" in event.data)


def _same(shown: ShownText, speech: Speech) -> bool:
    """Return whether the text continues the shown one; an older state of it counts, too."""
    if (shown.iteration, shown.call) != (speech.said.iteration, speech.call):
        return False
    return len(speech.said.text) < shown.text or shown.begins(speech.said.text)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _parse_position(after: int | str) -> tuple[int, ShownText | None]:
    match = _POSITION.fullmatch(str(after))
    if match is None:
        raise ValueError(
            f"{after!r} is not a position in a run, expected the `position` or `seq` of one of its "
            "events"
        )
    if match["call"] is None:
        return int(match["seq"]), None
    thinking, text = int(match["thinking"]), int(match["text"])
    said, thought = match["digest"], match["thought"] or ""
    return int(match["seq"]), ShownText(
        int(match["iteration"]), match["call"], thinking, text, said, thought
    )
