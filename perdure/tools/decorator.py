"""Makes a tool of a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..agent import FunctionTool, Property
from ..tool_calls import ToolSpec
from .properties import property_of
from .registry import register_tool
from .signature import MISSING, Parameter, signature_of

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def tool(fn: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    idempotent: bool = True,
    parallel_safe: bool = True,
    needs_approval: bool = False,
) -> Callable[[Function], Function]: ...
def tool(
    fn: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    idempotent: bool = True,
    parallel_safe: bool = True,
    needs_approval: bool = False,
) -> Any:
    """Declares a function, plain or async, as a tool: `@tool` or `@tool(name=…, …)`.

    The function stays as it is and gains `__tool__`, a `FunctionTool` made from its signature (no default: required;
    `Annotated[str, "…"]` describes a parameter), and `__tool_spec__`. It is registered under its name. What the model
    sees is what the `.prompty` file declares.

    `description` is by default the docstring's first paragraph. `timeout` is in seconds; None takes the run's
    `tool_timeout`. `idempotent=False` says that an execution which was lost with its worker must not be repeated,
    `parallel_safe=False` that no other tool may run beside it, `needs_approval` that a person must agree first.
    """

    def declare(function: Function) -> Function:
        tool_name = name or function.__name__
        function.__tool__ = FunctionTool(  # type: ignore[attr-defined]
            name=tool_name,
            description=description or _first_paragraph(function),
            parameters=[_property(parameter) for parameter in signature_of(function).parameters.values()],
        )
        function.__tool_spec__ = ToolSpec(  # type: ignore[attr-defined]
            name=tool_name,
            timeout=timeout,
            idempotent=idempotent,
            parallel_safe=parallel_safe,
            needs_approval=needs_approval,
        )
        register_tool(tool_name, function)
        return function

    return declare if fn is None else declare(fn)


def _first_paragraph(function: Callable[..., Any]) -> str | None:
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n")[0].split()) or None


def _property(parameter: Parameter) -> Property:
    described = property_of(parameter.name, parameter.annotation, parameter.adapter)
    if parameter.default is MISSING:
        return described.model_copy(update={"required": True})
    return described.model_copy(update={"default": _plain_default(parameter.default)})


def _plain_default(value: Any) -> Any:
    """The default in JSON's types; None when it has no such form."""
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        return None
