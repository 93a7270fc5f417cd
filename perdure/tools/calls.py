"""One call of a tool with all its arguments: the model's, checked, and those bound to the run's
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..agents import Agent
from ..declared_tools import OfferedFunction, Property
from ..json_types import JsonObject, JsonView
from ..tool_results import SizeLimits
from .binding import apply_bindings
from .context import ToolContext
from .handlers import Handler
from .isolated import is_isolated, isolated_call
from .kind import KindCall
from .resources import Resources
from .signature import InvalidArguments, call_by_name, signature_of
from .validation import find_problems, schema_problems, unknown_arguments, without_absent


class BoundCall(NamedTuple):
    """A call before its context is known; `with_context` returns the call. The context needs the
    resources in `needs`.
    """

    with_context: Callable[[ToolContext], Callable[[], Any]]
    is_async: bool
    needs: tuple[type, ...] = ()


def call_of(
    handler: Handler,
    agent: Agent,
    arguments: JsonView,
    inputs: JsonView,
    resources: Resources,
    limits: SizeLimits,
) -> BoundCall:
    """Return the handler's code with all its arguments except the context.

    Only the model's arguments are checked: the model does not know parameters bound to inputs.
    Raises InvalidArguments for the model's arguments, UnfitInputError for a missing bound parameter
    that the function requires, and ConfigurationError as `isolated_call` does.
    """
    if handler.kind is not None:
        return _call_of_kind(handler, agent, arguments, inputs)
    assert handler.function is not None
    function = handler.function
    signature, shared = signature_of(function), resources.parameters(function)
    bound = _bound_arguments(handler, arguments, inputs, shared)
    if handler.is_by_name and is_isolated(function):
        hidden = list(handler.tool.bindings or {})
        signature.fit(bound, hidden=hidden, elsewhere=shared)
        return BoundCall(isolated_call(function, bound, hidden, limits, shared), is_async=True)
    first: tuple[Any, ...] = ()
    named: JsonObject = {}
    if handler.is_by_name:
        named = signature.fit(bound, hidden=(handler.tool.bindings or {}).keys(), elsewhere=shared)
    else:
        first = handler.tool, bound, agent, dict(inputs)

    def with_context(context: ToolContext) -> Callable[[], Any]:
        given: JsonObject = {name: context.resource(kind) for name, kind in shared.items()}
        if signature.context_name:
            given[signature.context_name] = signature.context_of(context)
        return call_by_name(function, {**named, **given}, *first)

    needs = resources.types if signature.context_name else tuple(shared.values())
    return BoundCall(with_context, signature.is_async, needs)


def kind_call(
    handler: Handler, agent: Agent, arguments: JsonView, inputs: JsonView
) -> Callable[[ToolContext], KindCall]:
    """Return a function from the call's context to the call of a kind. Raises as `call_of` does."""
    tool = handler.tool
    assert isinstance(tool, OfferedFunction)
    hidden = tool.bindings or {}
    given, problems = schema_problems(
        tool.schema_, {k: v for k, v in arguments.items() if k not in hidden}
    )
    if problems:
        raise InvalidArguments(problems)
    return partial(
        KindCall,
        agent.source(tool),
        tool.name,
        tool.details,
        apply_bindings(tool, given, inputs),
        agent,
        inputs,
        limits=handler.limits,
    )


def _call_of_kind(
    handler: Handler, agent: Agent, arguments: JsonView, inputs: JsonView
) -> BoundCall:
    kind, told = handler.kind, kind_call(handler, agent, arguments, inputs)
    assert kind is not None

    def with_context(context: ToolContext) -> Callable[[], Any]:
        return partial(kind.execute, told(context))

    return BoundCall(with_context, is_async=True)


def _bound_arguments(
    handler: Handler, arguments: JsonView, inputs: JsonView, elsewhere: Container[str]
) -> JsonObject:
    declared, hidden = getattr(handler.tool, "parameters", None), handler.tool.bindings
    if not hidden:
        return _checked_arguments(handler, declared, arguments, elsewhere)
    given = {name: value for name, value in arguments.items() if name not in hidden}
    if declared is not None:
        visible = [prop for prop in declared if prop.name not in hidden]
        given = _checked_arguments(handler, visible, given, elsewhere)
    unseen = {name: value for name, value in arguments.items() if name in hidden}
    bound = apply_bindings(handler.tool, {**given, **unseen}, inputs)
    return bound if declared is None else without_absent(declared, bound)


def _checked_arguments(
    handler: Handler,
    declared: Sequence[Property] | None,
    arguments: JsonView,
    elsewhere: Container[str],
) -> JsonObject:
    """Return the model's arguments. Raises InvalidArguments if they do not fit the declaration, if
    there is one.
    """
    if declared is None:
        return dict(arguments)
    given = without_absent(declared, arguments)
    unexpected, problems = (
        _unexpected_arguments(handler, declared, given, elsewhere),
        find_problems(declared, given),
    )
    if unexpected or problems:
        raise InvalidArguments([*unexpected, *problems])
    return given


def _unexpected_arguments(
    handler: Handler, declared: Sequence[Property], given: JsonView, elsewhere: Container[str]
) -> list[str]:
    """Return the unknown arguments; a function called by names may have more than the declared
    parameters.
    """
    if handler.function is None or not handler.is_by_name:
        return unknown_arguments(given, [prop.name for prop in declared])
    hidden = handler.tool.bindings or {}
    return signature_of(handler.function).unexpected_arguments(
        given, hidden=hidden, elsewhere=elsewhere
    )
