"""Holds runs that would otherwise fail, until somebody releases them, possibly with other
options.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError
from temporalio import workflow

from ..errors import LimitExceededError, MaxIterationsError, RunError
from ..event_data import HoldReason
from ..json_types import JsonObject
from ..loop.state import LoopState
from ..options import CHANGED_BY_GO_ON, RunOptions
from ..protocol.names import GO_ON_REFUSED
from ..protocol.outcome import Held
from ..protocol.run import GoOn
from ..text import bounded_text, fault_text, one_line
from .received import Door

MAX_WHY_BYTES = 8 * 1024


REQUESTS = Door(
    GoOn, GO_ON_REFUSED, "options and by, each of which may be absent", is_optional=True
)
go_on_refusal = REQUESTS.refusal


class Holds:
    """The holds of one link: several tool calls of a round may be held at once, and are released
    together.
    """

    def __init__(self, options: RunOptions, loop: LoopState) -> None:
        """Both arguments belong to the run and change in place, so all their readers see the new
        values.
        """
        self._options = options
        self._loop = loop
        self.held: list[Held] = []
        """The reasons why the run is held now; [] while it is not held."""
        self._listener: Callable[[], object] = bool
        self._since = 0.0

    def listen(self, listener: Callable[[], object]) -> None:
        """Call `listener` when a hold begins or ends, in the workflow's thread. It must not
        raise.
        """
        self._listener = listener

    def begin(self, error: RunError, reason: HoldReason) -> Held:
        """Record that the run is held instead of failing with the error."""
        option = (
            error.option if isinstance(error, LimitExceededError | MaxIterationsError) else None
        )
        why = bounded_text(str(error), MAX_WHY_BYTES)
        held = Held(reason=reason, kind=error.kind, why=why, option=option, since=workflow.time())
        if not self.held:
            self._since = held.since
        self._set([*self.held, held])
        return held

    def is_over(self, held: Held) -> bool:
        """Return whether this hold is over."""
        return all(each is not held for each in self.held)

    def give_up(self, held: Held) -> None:
        """End this hold without a release."""
        self._set([each for each in self.held if each is not held])

    def _set(self, held: list[Held]) -> None:
        if self.held and not held:
            self._loop.held_seconds += workflow.time() - self._since
        self.held = held
        self._listener()

    def let_go_on(self, go_on: GoOn) -> None:
        """Change the options, and release all current holds. Raises as `require_possible` does."""
        for name, value in self.require_possible(go_on).items():
            setattr(self._options, name, value)
        self._set([])

    def require_possible(self, go_on: GoOn) -> JsonObject:
        """Return the changed options with their values. Raises a refusal that names the fault."""
        if not self.held:
            raise go_on_refusal("not_held", "the run is not held: there is nothing to go on with")
        changed = _changed_options(go_on)
        for held in self.held:
            if held.option and not self._is_raised(held.option, changed):
                now = getattr(self._options, held.option)
                text = (
                    f"{held.option} is used up ({now:g}): give a higher value, or the run would be "
                    "held again"
                )
                raise go_on_refusal("budget", text)
        return changed

    def _is_raised(self, option: str, changed: JsonObject) -> bool:
        before = getattr(self._options, option)
        if before is None or option not in changed:
            return before is None
        return changed[option] is None or changed[option] > before


def _changed_options(go_on: GoOn) -> JsonObject:
    """Return the fields of `RunOptions` with their values. Raises a refusal for a change that is
    not allowed.
    """
    if wrong := [name for name in go_on.options if name not in CHANGED_BY_GO_ON]:
        known = ", ".join(CHANGED_BY_GO_ON)
        raise go_on_refusal(
            "options", f"{', '.join(map(one_line, wrong[:10]))} can't change now, only {known}"
        )
    try:
        read = RunOptions.model_validate(go_on.options)
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, each['loc']))}: {fault_text(each)}" for each in error.errors()
        )
        raise go_on_refusal("options", "; ".join(problems)) from None
    return {name: getattr(read, name) for name in go_on.options}
