"""Tool calls whose outcome is unknown, and the results of finding it out. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from .json_types import JsonObject
from .messages import Exchanged, ToolResult
from .schema import value_digest
from .tool_calls import ToolSpec


class UnknownCall(Exchanged):
    """A call of a run that may have taken effect, although its result does not confirm it."""

    same: str
    """Equal for calls of the same tool with the same arguments."""
    key: str
    """The call's idempotency key."""
    iteration: int
    """0 for a call of an earlier run in the same conversation."""

    def reason(self, doubt: str) -> str:
        """Return the reason to ask a person about an equal call, if the tool's own function has
        this doubt.
        """
        call = (
            "the equal call of "
            f"{f'iteration {self.iteration}' if self.iteration else 'an earlier run'}"
        )
        why = f"it may repeat {call}, whose effect is unknown"
        return f"{why}, and its reconcile function can't tell: {doubt}" if doubt else why


def unknown_note(spec: ToolSpec) -> str:
    """Return the note that follows the text of such a call's result, for the model."""
    return f"The call may have taken effect: that is unknown. {_way_out(spec)}"


def _way_out(spec: ToolSpec) -> str:
    if spec.reconcile:
        return (
            "To find out, make exactly the same call again: the tool then looks first whether this "
            "one was done."
        )
    find_out = "Find out before you make it again, if another tool can tell"
    if not spec.idempotent:
        return f"{find_out}: exactly the same call needs a person's approval."
    return (
        "To make exactly the same call again is declared to be safe."
        if spec.safe_to_repeat
        else f"{find_out}."
    )


def same_call(name: str, arguments: JsonObject, spec: ToolSpec | None = None) -> str:
    """Return a key that is equal for calls of one tool with the same arguments, in any notation.

    It ignores their order, the form of a number (`1`, `1.0` or `"1"`), and the form of an absent
    argument: omitted, null or, if `spec` knows it, the default. Functions treat these alike.
    """
    given = {
        key: value
        for key, value in arguments.items()
        if not (spec and _is_default(key, value, spec))
    }
    text = json.dumps([name, _plain(given)], sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _is_default(name: str, value: Any, spec: ToolSpec) -> bool:
    declared = ((spec.parameters or {}).get("properties") or {}).get(name) or {}
    if "default" in declared and _plain(value) == _plain(declared["default"]):
        return True
    digest = spec.signature.defaults.get(name) if spec.signature else None
    return digest is not None and digest in map(value_digest, _ways_to_write(value))


def _ways_to_write(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
            yield value
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            yield float(value)
        if isinstance(value, float) and value.is_integer():
            yield int(value)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items() if each is not None}
        case list():
            return [_plain(each) for each in value]
        case float() if value.is_integer():
            return str(int(value))
        case str() | None:
            return value
        case _:
            return json.dumps(value)


@dataclass(frozen=True)
class Done:
    """States that an earlier call has taken effect; the tool is not executed."""

    result: Any = None
    """The result of the present call, as the tool itself would have returned it."""


@dataclass(frozen=True)
class NotDone:
    """States that an earlier call has not taken effect, and never will; the tool is executed."""


@dataclass(frozen=True)
class Unknown:
    """The outcome can't be found out: a person is asked."""

    reason: str = ""
    """Shown to that person."""


class Reconciled(Exchanged):
    """The finding of a tool's `reconcile` function; neither field is set if the earlier call was
    not executed.
    """

    result: ToolResult | None = None
    """Set if it was executed."""
    doubt: str | None = None
    """Set if that is unknown: the reason."""
