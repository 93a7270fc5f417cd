"""Reads a namespace's record of pauses."""

from __future__ import annotations

from collections.abc import Callable

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..protocol.pauses import PAUSE, RECORD, RELEASE, Pause, Pauses, Release
from ..redaction import get_logger

LINES: dict[str, type[Pause | Release]] = {PAUSE: Pause, RELEASE: Release}
"""Signal name → type of its argument."""

_log = get_logger("perdure.worker")


class PauseRecord:
    """A reader of the record, with the state up to the last event read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.pauses = Pauses()
        self.lines = Pauses()
        """The sum of all lines, also after the record has ended."""
        self.events = 0
        """Number of events read."""
        self.run_id = ""
        """The run id of the workflow that holds the record; "" without a record."""

    async def read(self) -> Pauses:
        """Return the pauses in force now. Raises RPCError."""
        await self.follow(wait=False)
        return self.pauses

    async def follow(
        self,
        run_id: str | None = None,
        *,
        wait: bool = True,
        on_page: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the record from its beginning and, with `wait`, follow it until it ends. Raises
        RPCError.

        Without a record, and after its end, no pause is in force.
        """
        pages = self._client.get_workflow_handle(RECORD, run_id=run_id).fetch_history_events(
            wait_new_event=wait
        )
        pauses, events = Pauses(), 0
        while True:
            try:
                await pages.fetch_next_page()
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                self.pauses, self.lines, self.events, self.run_id = Pauses(), Pauses(), 0, ""
                on_page()
                return
            has_ended = False
            for event in pages.current_page or ():
                events += 1
                has_ended = event.event_type in _ENDS
                if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                    self.run_id = (
                        event.workflow_execution_started_event_attributes.original_execution_run_id
                    )
                elif (line := await self._line(event)) is not None:
                    pauses.take(line, event.event_time.ToNanoseconds() / 1e9)
            self.lines, self.events = pauses.snapshot(), events
            self.pauses = Pauses() if has_ended else self.lines
            on_page()
            if not pages.next_page_token:
                return

    async def _line(self, event: HistoryEvent) -> Pause | Release | None:
        """Return the line that a signal carries; None, with a warning in the log, for an unreadable
        one.
        """
        signal = event.workflow_execution_signaled_event_attributes
        if (
            event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
            or signal.signal_name not in LINES
        ):
            return None
        try:
            [line] = await self._client.data_converter.decode(
                list(signal.input.payloads), [LINES[signal.signal_name]]
            )
        except Exception as error:  # A stranger's bytes can raise anything.
            _log.warning(
                "A line of the pauses' record can't be read, and does not count: %s",
                str(error)[:200],
            )
            return None
        assert isinstance(line, Pause | Release)
        return line


_ENDS = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
    }
)
