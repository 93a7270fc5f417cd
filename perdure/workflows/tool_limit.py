"""The workflow that lets no more calls of a tool be executed at a time than a limit over all workers allows."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from ..protocol.names import CLOSED_LINKS, SLOT, SLOT_ASKED, SLOT_FREE, TOOL_LIMIT_WORKFLOW
from ..protocol.tool_limit import LinksInput, Slot, SlotAsked, ToolLimitState
from .history_size import go_on_in_new_link, is_behind
from .policies import BUGS, COMPACTION_RETRIES, MARGIN

LOOK_SECONDS = 30.0
"""Between two looks whether the links that have slots are still open, while others wait."""
IDLE_SECONDS = 60.0
"""Without a call; then the workflow ends, and the next call starts another one."""


@workflow.defn(name=TOOL_LIMIT_WORKFLOW, sandboxed=False, failure_exception_types=BUGS)
class ToolLimit:
    """Gives out slots: one for each call under way, in the order in which they are asked for.

    A run asks by a signal and gets its slot by one, and gives it back by one. What a run that has ended has not given
    back, is taken from it. Whoever asks again, because nothing is heard, is heard: a call has one slot.
    """

    @workflow.init
    def __init__(self, state: ToolLimitState) -> None:
        self._state = state
        self._has_news = True
        self._asked = 0
        """How often this link was asked."""

    @workflow.run
    async def run(self, state: ToolLimitState) -> None:
        """Give out slots until nobody has asked for a while."""
        while True:
            self._has_news = False
            await self._give_out()
            if workflow.info().is_continue_as_new_suggested() or (self._asked and is_behind()):
                await workflow.wait_condition(workflow.all_handlers_finished)
                go_on_in_new_link(self._state)
            is_busy = bool(self._state.held or self._state.waiting)
            if await self._news(LOOK_SECONDS if is_busy else IDLE_SECONDS):
                continue
            if not is_busy:
                return
            await self._take_from_closed()

    async def _news(self, seconds: float) -> bool:
        try:
            await workflow.wait_condition(lambda: self._has_news, timeout=timedelta(seconds=seconds))
        except TimeoutError:
            return False
        return True

    async def _give_out(self) -> None:
        while self._state.waiting and len(self._state.held) < self._state.limit:
            asked = self._state.waiting.pop(0)
            self._state.held.append(asked)
            await self._tell(asked)

    async def _tell(self, asked: SlotAsked) -> None:
        run = workflow.get_external_workflow_handle(asked.workflow_id, run_id=asked.run_id)
        try:
            await run.signal(SLOT, Slot(key=asked.key))
        except ApplicationError as error:
            workflow.logger.info("the run %s has ended before it got its slot: %s", asked.workflow_id, error)
            self._forget(asked.key)

    async def _take_from_closed(self) -> None:
        links = list({(each.workflow_id, each.run_id): each for each in self._state.held}.values())
        try:
            closed: list[str] = await workflow.execute_activity(
                CLOSED_LINKS,
                LinksInput(links=links),
                result_type=list[str],
                start_to_close_timeout=MARGIN,
                retry_policy=COMPACTION_RETRIES,
            )
        except ActivityError as error:
            workflow.logger.warning("which runs are still open can't be found out: %s", error.cause)
            return
        self._state.held = [each for each in self._state.held if each.run_id not in closed]

    @workflow.signal(name=SLOT_ASKED)
    async def ask(self, asked: SlotAsked) -> None:
        """Put the call in the queue; one that has its slot is told so again."""
        self._state.limit = asked.limit
        self._asked, self._has_news = self._asked + 1, True
        if any(each.key == asked.key for each in self._state.held):
            await self._tell(asked)
        elif all(each.key != asked.key for each in self._state.waiting):
            self._state.waiting.append(asked)

    @workflow.signal(name=SLOT_FREE)
    def give_back(self, slot: Slot) -> None:
        """Take the slot back, or the call out of the queue."""
        self._has_news = True
        self._forget(slot.key)

    def _forget(self, key: str) -> None:
        self._state.held = [each for each in self._state.held if each.key != key]
        self._state.waiting = [each for each in self._state.waiting if each.key != key]
