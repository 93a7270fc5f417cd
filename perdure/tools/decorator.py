"""Declares a Python function as a tool, with a function of its own that decides about approvals."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from pydantic import ValidationError

from ..declared_tools import ApprovalPolicy
from ..errors import ConfigurationError
from ..guardrails import GuardrailResult
from ..json_types import JsonView
from ..text import bounded_text, fault_text
from ..tool_calls import ToolSpec
from ..tool_results import SizeLimits
from ..unknown_outcomes import Done, NotDone, Reconciled, Unknown
from .context import ToolContext
from .declaration import written_declaration
from .inventory import with_policy
from .isolated import FunctionAddress
from .kind import register_tool
from .results import to_result
from .signature import call_by_name, is_async, signature_of

OWN = "__tool_{}__"
"""Where a tool function keeps functions of its own: `approval` and `reconcile`."""
MAX_DOUBT_BYTES = 1000
Check = Callable[..., Any]
"""Called with the call's arguments as a dict (one that reconciles, with the idempotency key, too), and with a
`ToolContext` if it has a parameter of that type."""


@dataclass(frozen=True)
class ToolApproval:
    """What `@tool` says about approvals."""

    always: bool = False
    check: Check | None = None

    @property
    def kind(self) -> Literal["plain", "async"] | None:
        """Return what kind of function decides; None for none."""
        return None if self.check is None or self.always else "async" if is_async(self.check) else "plain"


def read_approval(name: str, approval: Literal["always", "never"] | Check | None, needs_approval: bool) -> ToolApproval:
    """Return what the options of `@tool` say. Raises ConfigurationError for another value, and for a contradiction."""
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


def _check_reconcile(name: str, reconcile: Any, idempotent: bool | None) -> None:
    if reconcile is not None and not callable(reconcile):
        text = "expected a function of the arguments and the idempotency key that returns Done, NotDone or Unknown"
        raise ConfigurationError(f"tool {name!r}: reconcile is {reconcile!r:.80}: {text}")
    if reconcile is not None and idempotent:
        text = "a tool that may be repeated has nothing to find out. Leave out one of the two"
        raise ConfigurationError(f"tool {name!r}: idempotent=True contradicts reconcile: {text}")


def read_deciders(name: str, deciders: ApprovalPolicy | JsonView | None) -> ApprovalPolicy | None:
    """Return what `@tool(deciders=…)` says. Raises ConfigurationError for what is no policy."""
    if deciders is None or isinstance(deciders, ApprovalPolicy):
        return deciders
    try:
        known = {*ApprovalPolicy.model_fields, *ApprovalPolicy.file_keys()}
        if unknown := [key for key in deciders if key not in known]:
            raise ValueError(f"{unknown[0]!r} is unknown, expected some of {', '.join(ApprovalPolicy.file_keys())}")
        return ApprovalPolicy.model_validate(deciders)
    except (ValueError, TypeError) as error:
        problem = fault_text(dict(error.errors()[0])) if isinstance(error, ValidationError) else str(error)
        raise ConfigurationError(f"tool {name!r}: deciders is {deciders!r:.200}: {problem}") from error


def check_call(check: Check, arguments: Sequence[Any], context: ToolContext) -> Callable[[], Any]:
    """Return the call of a function of the user's, with the context, wherever it takes that.

    Raises `UnfitDepsError`.
    """
    signature = signature_of(check)
    name = signature.context_name
    if name is None:
        return call_by_name(check, {}, *arguments)
    given = signature.context_of(context)
    if next(iter(inspect.signature(check).parameters)) == name:
        return call_by_name(check, {}, given, *arguments)
    return call_by_name(check, {name: given}, *arguments)


def verdict_of(value: Any) -> GuardrailResult:
    """Return what it has returned, as a verdict. Raises TypeError for anything but a bool or a text."""
    if isinstance(value, bool):
        return GuardrailResult(allowed=True, ask="" if value else None)
    if isinstance(value, str):
        return GuardrailResult(allowed=True, ask=value)
    raise TypeError(f"expected True, False or a reason, got {value!r:.80}")


def finding_of(value: Any, limits: SizeLimits) -> Reconciled:
    """Return what a function that reconciles has returned. Raises TypeError for anything but its three answers, and as
    `to_result` does.
    """
    match value:
        case Done(result=result):
            return Reconciled(result=to_result(result, limits))
        case NotDone():
            return Reconciled()
        case Unknown(reason=reason):
            return Reconciled(doubt=bounded_text(str(reason), MAX_DOUBT_BYTES) or "it gives no reason")
    raise TypeError(f"expected Done(result), NotDone() or Unknown(), got {value!r:.80}")


Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def tool(fn: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    idempotent: bool | None = None,
    reconcile: Check | None = None,
    parallel_safe: bool = True,
    needs_approval: bool = False,
    approval: Literal["always", "never"] | Check | None = None,
    deciders: ApprovalPolicy | JsonView | None = None,
    approval_timeout: float | None = None,
    local: bool = False,
    isolated: bool = False,
    max_result: int | None = None,
    max_parallel: int | None = None,
) -> Callable[[Function], Function]: ...
def tool(
    fn: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    idempotent: bool | None = None,
    reconcile: Check | None = None,
    parallel_safe: bool = True,
    needs_approval: bool = False,
    approval: Literal["always", "never"] | Check | None = None,
    deciders: ApprovalPolicy | JsonView | None = None,
    approval_timeout: float | None = None,
    local: bool = False,
    isolated: bool = False,
    max_result: int | None = None,
    max_parallel: int | None = None,
) -> Any:
    """Declare a function, plain or async, as a tool: `@tool` or `@tool(name=…, …)`.

    The function stays as it is and gains `__tool__`, a `FunctionTool` made from its signature (a parameter without a
    default is required; `Annotated[str, "…"]`, or else the docstring, describes one), and `__tool_spec__`. It is
    registered under its name. The model is offered what the `.prompty` file declares, and of this what the file leaves
    out.

    Args:
        name: By default the function's own.
        description: By default the first paragraph of the docstring.
        timeout: Seconds for one execution; None takes the run's `tool_timeout`.
        retries: How often an execution that has failed is repeated, after 1, 2, 4 … 30 seconds. One of a tool that is
            not idempotent is repeated only where the function has raised: otherwise it may have taken effect.
        idempotent: False for a tool that must not be repeated when nobody knows whether a call took effect; True or
            left out for one that may be. If left out, the model is told to find out first, and `perdure check` says so.
        reconcile: A function, plain or async, that finds out what became of a call of unknown outcome, when the model
            makes an equal one. It is given the arguments as a dict, the earlier call's idempotency key, and a
            `ToolContext` if it has a parameter of that type; it returns `Done(result)`, `NotDone()` or `Unknown()`.
            The tool is not idempotent then.
        parallel_safe: False for a tool beside which no other one may run.
        needs_approval: True for a tool that a person must approve before each execution: short for `approval="always"`.
        approval: `"always"`, `"never"`, or a function, plain or async, that decides for each call: it is given the
            arguments as a dict, and a `ToolContext` if it has a parameter of that type. True or a text, the reason that
            a person is shown, asks a person; False does not. One that raises asks a person too.
        deciders: Who may decide, as `approval` in the agent's file has it: `{"by": ["finance"], "count": 2}`. Without
            an `approval` beside it, a person must approve each execution.
        approval_timeout: Seconds until a call that nobody has decided about is denied; None for never.
        local: True for a fast function without effects, of well under 100 ms: it is executed where the workflow is,
            which saves time and history. It is given up after 2 seconds, and can't be `idempotent=False`.
        isolated: True for a plain function that is called in a process of its own: a crash of it is a failed call, and
            ends neither the worker nor other calls.
        max_result: Bytes of text that the model is shown of one result.
        max_parallel: How many calls each worker executes at a time; further ones wait on a task queue of the tool's,
            and take no slot of others.

    Raises ConfigurationError for a tool that is both local and not idempotent, isolated or limited, for an `approval`
    or a `reconcile` that is none, and for an isolated function that another process can't find by its name.
    """

    def declare(function: Function) -> Function:
        tool_name = name or function.__name__
        policy = read_deciders(tool_name, deciders)
        _check_reconcile(tool_name, reconcile, idempotent)
        asks = read_approval(tool_name, approval, needs_approval or (policy is not None and approval is None))
        if isolated:
            FunctionAddress.of(function)
        function.__tool__ = written_declaration(tool_name, function, description)  # type: ignore[attr-defined]
        spec = ToolSpec(
            name=tool_name,
            timeout=timeout,
            retries=retries,
            idempotent=reconcile is None and idempotent is not False,
            safe_to_repeat=bool(idempotent),
            reconcile=reconcile is not None,
            parallel_safe=parallel_safe,
            needs_approval=asks.always,
            approval_check=asks.kind,
            deciders=policy,
            approval_timeout=approval_timeout,
            local=local,
            isolated=isolated,
            max_result=max_result,
            max_parallel=max_parallel,
        )
        function.__tool_spec__ = with_policy(spec, None, is_function=True)  # type: ignore[attr-defined]
        setattr(function, OWN.format("approval"), asks.check)
        setattr(function, OWN.format("reconcile"), reconcile)
        register_tool(tool_name, function)
        return function

    return declare if fn is None else declare(fn)
