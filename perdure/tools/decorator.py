"""Declares a Python function as a tool, with optional functions for approval and reconciliation."""

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
"""The attribute of a tool function for its own functions `approval` and `reconcile`."""
MAX_DOUBT_BYTES = 1000
Check = Callable[..., Any]
"""Called with the call's arguments as a dict (for reconciliation also with the idempotency key),
and with a `ToolContext` if it has a parameter of that type.
"""


@dataclass(frozen=True)
class ToolApproval:
    """The approval settings of `@tool`."""

    always: bool = False
    check: Check | None = None

    @property
    def kind(self) -> Literal["plain", "async"] | None:
        """Return the kind of the deciding function; None without one."""
        return (
            None
            if self.check is None or self.always
            else "async"
            if is_async(self.check)
            else "plain"
        )


def read_approval(
    name: str, approval: Literal["always", "never"] | Check | None, needs_approval: bool
) -> ToolApproval:
    """Return the approval options of `@tool`. Raises ConfigurationError for invalid or
    contradictory options.
    """
    if approval in (None, "always", "never"):
        if needs_approval and approval == "never":
            raise ConfigurationError(
                f"tool {name!r}: approval='never' contradicts needs_approval=True: leave out one "
                "of the two"
            )
        return ToolApproval(always=needs_approval or approval == "always")
    if not callable(approval):
        text = (
            "expected 'always', 'never', or a function of the arguments that returns True, False "
            "or a reason"
        )
        raise ConfigurationError(f"tool {name!r}: approval is {approval!r}: {text}")
    return ToolApproval(always=needs_approval, check=approval)


def _check_reconcile(name: str, reconcile: Any, idempotent: bool | None) -> None:
    if reconcile is not None and not callable(reconcile):
        text = (
            "expected a function of the arguments and the idempotency key that returns Done, "
            "NotDone or Unknown"
        )
        raise ConfigurationError(f"tool {name!r}: reconcile is {reconcile!r:.80}: {text}")
    if reconcile is not None and idempotent:
        text = "a tool that may be repeated has nothing to find out. Leave out one of the two"
        raise ConfigurationError(f"tool {name!r}: idempotent=True contradicts reconcile: {text}")


def read_approvers(name: str, approvers: ApprovalPolicy | JsonView | None) -> ApprovalPolicy | None:
    """Return the policy in `@tool(approvers=…)`. Raises ConfigurationError for a value that is not
    a policy.
    """
    if approvers is None or isinstance(approvers, ApprovalPolicy):
        return approvers
    try:
        known = {*ApprovalPolicy.model_fields, *ApprovalPolicy.file_keys()}
        if unknown := [key for key in approvers if key not in known]:
            raise ValueError(
                f"{unknown[0]!r} is unknown, expected some of "
                f"{', '.join(ApprovalPolicy.file_keys())}"
            )
        return ApprovalPolicy.model_validate(approvers)
    except (ValueError, TypeError) as error:
        problem = (
            fault_text(dict(error.errors()[0]))
            if isinstance(error, ValidationError)
            else str(error)
        )
        raise ConfigurationError(
            f"tool {name!r}: approvers is {approvers!r:.200}: {problem}"
        ) from error


def check_call(check: Check, arguments: Sequence[Any], context: ToolContext) -> Callable[[], Any]:
    """Return the call of a user's function, with the context as any parameter of that type.

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
    """Return the function's value as a verdict. Raises TypeError for a value that is not a bool or
    a text.
    """
    if isinstance(value, bool):
        return GuardrailResult(allowed=True, ask="" if value else None)
    if isinstance(value, str):
        return GuardrailResult(allowed=True, ask=value)
    raise TypeError(f"expected True, False or a reason, got {value!r:.80}")


def finding_of(value: Any, limits: SizeLimits) -> Reconciled:
    """Return the finding in a reconcile function's value. Raises TypeError for a value other than
    Done, NotDone and Unknown, and as `to_result` does.
    """
    match value:
        case Done(result=result):
            return Reconciled(result=to_result(result, limits))
        case NotDone():
            return Reconciled()
        case Unknown(reason=reason):
            return Reconciled(
                doubt=bounded_text(str(reason), MAX_DOUBT_BYTES) or "it gives no reason"
            )
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
    approvers: ApprovalPolicy | JsonView | None = None,
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
    approvers: ApprovalPolicy | JsonView | None = None,
    approval_timeout: float | None = None,
    local: bool = False,
    isolated: bool = False,
    max_result: int | None = None,
    max_parallel: int | None = None,
) -> Any:
    """Declare a function, plain or async, as a tool: `@tool` or `@tool(name=…, …)`.

    The function is unchanged except for two attributes: `__tool__`, a `FunctionTool` made from its
    signature (a parameter without a default is required; `Annotated[str, "…"]`, or else the
    docstring, describes one), and `__tool_spec__`. It is registered under its name. The model is
    offered the declaration in the `.prompty` file, completed by the function.

    Args:
        name: By default the function's own.
        description: By default the first paragraph of the docstring.
        timeout: Seconds for one execution; None takes the run's `tool_timeout`.
        retries: How many times a failed execution is repeated, after 1, 2, 4 … 30 seconds. A tool
            that is not idempotent is repeated only if the function has raised: otherwise it may
            have taken effect.
        idempotent: False for a tool that must not be repeated after a call with an unknown outcome;
            True or unset for one that may be. If unset, the model is asked to find out first, and
            `perdure check` reports it.
        reconcile: A function, plain or async, that finds the outcome of an earlier call if that is
            unknown, when the model makes an equal one. It gets the arguments as a dict, the earlier
            call's idempotency key, and a `ToolContext` if it has a parameter of that type; it
            returns `Done(result)`, `NotDone()` or `Unknown()`. Such a tool is not idempotent.
        parallel_safe: False for a tool that must run alone.
        needs_approval: True for a tool that a person must approve before each execution: short for
            `approval="always"`.
        approval: `"always"`, `"never"`, or a function, plain or async, that decides for each call:
            it gets the arguments as a dict, and a `ToolContext` if it has a parameter of that type.
            True asks a person, as does a text, which is the reason shown; False does not. A
            function that raises also asks a person.
        approvers: Who may decide, as in `approval` of the agent's file: `{"by": ["finance"],
            "count": 2}`. Without an `approval` option, a person must approve each execution.
        approval_timeout: Seconds until an undecided call is denied; None for never.
        local: True for a fast function without effects, of well under 100 ms: it is executed where
            the workflow is, which saves time and history. It has at most 2 seconds, and can't be
            `idempotent=False`.
        isolated: True for a plain function that runs in a process of its own: its crash fails the
            call, but not the worker or other calls.
        max_result: Bytes of one result's text that the model gets.
        max_parallel: How many calls each worker executes at a time; further ones wait on the tool's
            own task queue, and occupy no slot of other calls.

    Raises ConfigurationError for a tool that is both local and not idempotent, isolated or limited,
    for an invalid `approval` or `reconcile`, and for an isolated function that another process
    can't find by its name.
    """

    def declare(function: Function) -> Function:
        tool_name = name or function.__name__
        policy = read_approvers(tool_name, approvers)
        _check_reconcile(tool_name, reconcile, idempotent)
        asks = read_approval(
            tool_name, approval, needs_approval or (policy is not None and approval is None)
        )
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
            approvers=policy,
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
