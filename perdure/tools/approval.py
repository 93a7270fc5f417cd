"""A tool's own function that decides for each call whether a person must approve it: `@tool(approval=FUNCTION)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ..errors import ConfigurationError
from ..guardrails import GuardrailResult
from .context import ToolContext
from .signature import is_async, signature_of

ATTRIBUTE = "__tool_approval__"
"""Where a tool function keeps it."""
Check = Callable[..., Any]
"""Called with the call's arguments as a dict, and with a `ToolContext` if it has a parameter of that type."""


@dataclass(frozen=True)
class ToolApproval:
    """What `@tool` says about approvals."""

    always: bool = False
    check: Check | None = None

    @property
    def kind(self) -> Literal["plain", "async"] | None:
        """What kind of function decides; None for none."""
        return None if self.check is None or self.always else "async" if is_async(self.check) else "plain"


def read_approval(name: str, approval: Literal["always", "never"] | Check | None, needs_approval: bool) -> ToolApproval:
    """What the options of `@tool` say. Raises ConfigurationError for another value, and for a contradiction."""
    if approval in (None, "always", "never"):
        if needs_approval and approval == "never":
            raise ConfigurationError(
                f"tool {name!r}: approval='never' contradicts needs_approval=True: leave out one of the two"
            )
        return ToolApproval(always=needs_approval or approval == "always")
    if not callable(approval):
        text = "expected 'always', 'never', or a function of the arguments that returns True, False or a reason"
        raise ConfigurationError(f"tool {name!r}: approval is {approval!r}: {text}")
    return ToolApproval(always=needs_approval, check=approval)


def approval_check(function: Callable[..., Any] | None) -> Check | None:
    """The tool function's own function for approvals; None if it has none."""
    check: Check | None = getattr(function, ATTRIBUTE, None)
    return check


def check_call(check: Check, arguments: Mapping[str, Any], context: ToolContext) -> Callable[[], Any]:
    """The call of such a function."""
    name = signature_of(check).context_name
    return partial(check, dict(arguments), **({name: context} if name else {}))


def verdict_of(value: Any) -> GuardrailResult:
    """What it has returned, as a verdict. Raises TypeError for anything but a bool or a text."""
    if isinstance(value, bool):
        return GuardrailResult(allowed=True, ask="" if value else None)
    if isinstance(value, str):
        return GuardrailResult(allowed=True, ask=value)
    raise TypeError(f"expected True, False or a reason, got {value!r:.80}")
