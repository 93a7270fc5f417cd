"""Declares a Python function as a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from ..tool_calls import ToolSpec
from .approval import ATTRIBUTE, Check, read_approval
from .declaration import written_declaration
from .isolated_job import Place
from .policy import with_policy
from .registry import register_tool

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
    idempotent: bool = True,
    parallel_safe: bool = True,
    needs_approval: bool = False,
    approval: Literal["always", "never"] | Check | None = None,
    approval_timeout: float | None = None,
    local: bool = False,
    isolated: bool = False,
    max_result: int | None = None,
) -> Callable[[Function], Function]: ...
def tool(
    fn: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    idempotent: bool = True,
    parallel_safe: bool = True,
    needs_approval: bool = False,
    approval: Literal["always", "never"] | Check | None = None,
    approval_timeout: float | None = None,
    local: bool = False,
    isolated: bool = False,
    max_result: int | None = None,
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
        idempotent: False for a tool that must not be repeated when an execution was lost with its worker.
        parallel_safe: False for a tool beside which no other one may run.
        needs_approval: True for a tool that a person must approve before each execution: short for `approval="always"`.
        approval: `"always"`, `"never"`, or a function, plain or async, that decides for each call: it is given the
            arguments as a dict, and a `ToolContext` if it has a parameter of that type. True or a text, the reason that
            a person is shown, asks a person; False does not. One that raises asks a person too.
        approval_timeout: Seconds until a call that nobody has decided about is denied; None for never.
        local: True for a fast function without effects, of well under 100 ms: it is executed where the workflow is,
            which saves time and history. It is given up after 2 seconds, and can't be `idempotent=False`.
        isolated: True for a plain function that is called in a process of its own: a crash of it is a failed call, and
            ends neither the worker nor other calls.
        max_result: Bytes of text that the model is shown of one result.

    Raises ConfigurationError for a tool that is both local and not idempotent or isolated, for an `approval` that is
    none, and for an isolated function that another process can't find by its name.
    """

    def declare(function: Function) -> Function:
        tool_name = name or function.__name__
        asks = read_approval(tool_name, approval, needs_approval)
        if isolated:
            Place.of(function)
        function.__tool__ = written_declaration(tool_name, function, description)  # type: ignore[attr-defined]
        spec = ToolSpec(
            name=tool_name,
            timeout=timeout,
            retries=retries,
            idempotent=idempotent,
            parallel_safe=parallel_safe,
            needs_approval=asks.always,
            approval_check=asks.kind,
            approval_timeout=approval_timeout,
            local=local,
            isolated=isolated,
            max_result=max_result,
        )
        function.__tool_spec__ = with_policy(spec, None, is_function=True)  # type: ignore[attr-defined]
        setattr(function, ATTRIBUTE, asks.check)
        register_tool(tool_name, function)
        return function

    return declare if fn is None else declare(fn)
