"""Reads the signature of a tool function, and converts the model's arguments for it."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import (
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)

from ..json_types import JsonObject, JsonView
from ..text import fault_text, unknown_argument
from .context import ToolContext, context_with, open_deps

MISSING = inspect.Parameter.empty


class InvalidArguments(ValueError):
    """A tool can't be called with these arguments; each problem names its parameter."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class UnfitInputError(ValueError):
    """The run's inputs do not fit a tool's bound parameters. The text does not name them: it goes
    to the model, which has never seen them.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("the run's inputs lack the values that the tool is bound to")
        self.problems = problems


class UnfitDepsError(ValueError):
    """The deps of a run are not of the type that a function expects; the text has the reason,
    without values.
    """


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter that the model may fill."""

    name: str
    annotation: Any
    adapter: TypeAdapter[Any] | None
    """Converts JSON to the annotated type; None without an annotation, or for one that pydantic
    can't use."""
    default: Any = MISSING
    """`MISSING` for a required parameter."""

    @property
    def has_json_form(self) -> bool:
        """Return whether a model can write it: False for a class that pydantic can't read."""
        return self.adapter is not None or self.annotation in (MISSING, Any)

    @cached_property
    def members(self) -> frozenset[str] | None:
        """Names that objects in its values may have, since pydantic would silently drop others.
        None if some object takes any.
        """
        schema = self.adapter.json_schema() if self.adapter else {}
        return (
            None
            if any(_is_open(each) for each in _objects(schema))
            else frozenset(name for each in _objects(schema) for name in each["properties"])
        )

    def converted(self, value: Any) -> Any:
        """Return the value as the annotated type. Raises pydantic's ValidationError."""
        if self.adapter is None or (value is None and self.default is MISSING):
            return value
        is_strict = isinstance(value, dict | list) and bool(self.members)
        return self.adapter.validate_python(value, extra="forbid" if is_strict else None)

    def of_json(self, value: Any) -> Any:
        """Return the run's deps as the annotated type; as `OpenDeps` without one. Raises
        `UnfitDepsError`.
        """
        if self.adapter is None:
            return open_deps(value)
        try:
            return self.adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            name = getattr(self.annotation, "__name__", repr(self.annotation))
            fault = self.problem(error.errors(include_url=False)[0])
            has = "the run was started without deps" if value is None else fault
            raise UnfitDepsError(f"the run's deps are not of the type {name}: {has}") from None

    def problem(self, detail: Any) -> str:
        """Return one of pydantic's faults in words for a model."""
        place = "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"]
        )
        if detail["type"] in ("extra_forbidden", "unexpected_keyword_argument") and self.members:
            inner, _, last = place.rpartition(".")
            return unknown_argument(last, sorted(self.members), f"{self.name}{inner}.")
        text = fault_text(detail)
        return f"'{self.name}{place}': {text[:1].lower()}{text[1:]}"


@dataclass(frozen=True)
class ToolSignature:
    """The parameters of a tool function."""

    parameters: Mapping[str, FunctionParameter]
    """By name, without the one for the context."""
    context_name: str | None
    """The parameter for the `ToolContext`; None without one."""
    deps: FunctionParameter
    """The run's deps, as the context has them."""
    takes_anything: bool
    """Whether it has `**kwargs`, or can't be inspected."""
    is_async: bool
    places: JsonView
    """The positional-only parameters in order, including one for the context, with their
    defaults."""

    def context_of(self, context: ToolContext) -> ToolContext:
        """Return the context with the run's deps as the function expects them. Raises
        `UnfitDepsError`.
        """
        return (
            context
            if self.deps.adapter is None
            else context_with(context, deps=self.deps.of_json(context.deps))
        )

    def fit(
        self, arguments: JsonView, *, hidden: Container[str] = (), elsewhere: Container[str] = ()
    ) -> JsonObject:
        """Return the keyword arguments for the function, converted to the annotated types.

        Ignores the parameters in `elsewhere`. Raises InvalidArguments for unknown, missing and
        invalid arguments, but UnfitInputError if only parameters `hidden` from the model are
        affected.
        """
        problems = self.unexpected_arguments(arguments, hidden=hidden, elsewhere=elsewhere)
        unfit: list[str] = []
        fitted = dict(arguments)
        for name, parameter in self.parameters.items():
            if name in elsewhere:
                continue
            found = unfit if name in hidden else problems
            if name not in arguments:
                found += [f"'{name}' is required"] if parameter.default is MISSING else []
                continue
            try:
                fitted[name] = parameter.converted(arguments[name])
            except ValidationError as error:
                found += map(parameter.problem, error.errors(include_url=False))
        if problems:
            raise InvalidArguments(problems)
        if unfit:
            raise UnfitInputError(unfit)
        return fitted

    def unexpected_arguments(
        self,
        arguments: Iterable[str],
        *,
        hidden: Container[str] = (),
        elsewhere: Container[str] = (),
    ) -> list[str]:
        """Return a sentence for each unknown argument; the other parameters are as for `fit`."""
        if self.takes_anything:
            return []
        unexpected = [
            name for name in arguments if name not in self.parameters or name in elsewhere
        ]
        if not unexpected:
            return []
        own = [name for name in self.parameters if name not in elsewhere and name not in hidden]
        return [unknown_argument(name, own) for name in unexpected]


def signature_of(function: Callable[..., Any]) -> ToolSignature:
    """Return the signature of a tool function; for one that can't be inspected, a signature that
    takes anything.
    """
    try:
        return _remembered(function)
    except TypeError:  # a callable object that can't be a key
        return _read_signature(function)


def _read_signature(function: Callable[..., Any]) -> ToolSignature:
    try:
        declared = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ToolSignature({}, None, _NO_DEPS, True, is_async(function), {})
    hints = _hints(function)
    places = {
        name: each.default for name, each in declared.items() if each.kind is each.POSITIONAL_ONLY
    }
    parameters: dict[str, FunctionParameter] = {}
    context_name, deps, takes_anything = None, _NO_DEPS, False
    for name, parameter in declared.items():
        annotation = hints.get(name, parameter.annotation)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_anything = True
        elif annotation is ToolContext or get_origin(annotation) is ToolContext:
            context_name, deps = name, _deps(*get_args(annotation))
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL and name not in ("self", "cls"):
            parameters[name] = FunctionParameter(
                name, annotation, _adapter(annotation), parameter.default
            )
    return ToolSignature(parameters, context_name, deps, takes_anything, is_async(function), places)


def _deps(annotation: Any = MISSING) -> FunctionParameter:
    return FunctionParameter("deps", annotation, _adapter(annotation))


_NO_DEPS = FunctionParameter("deps", MISSING, None)


def call_by_name(function: Callable[..., Any], named: JsonView, *first: Any) -> Callable[[], Any]:
    """Return the call with these arguments, after the `first` ones; positional-only parameters get
    them by position.
    """
    if not (by_position := signature_of(function).places):
        return partial(function, *first, **named)
    places = list(by_position.items())[len(first) :]
    while places and places[-1][0] not in named:
        places.pop()
    by_name = {name: value for name, value in named.items() if name not in dict(places)}
    return partial(function, *first, *[named.get(*place) for place in places], **by_name)


_remembered = lru_cache(maxsize=4096)(_read_signature)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether calling it makes a coroutine: true for async functions, and for partials and
    callable objects of them.

    A decorated function counts as its wrapper: a plain wrapper may itself run the async function
    that it wraps.
    """
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def _hints(function: Callable[..., Any]) -> JsonObject:
    """Return the evaluated annotations, except those with unresolvable names (a class local to a
    function).
    """
    while isinstance(function, partial):
        function = function.func
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        scope = getattr(target, "__globals__", {})
        written = getattr(target, "__annotations__", {})
        return {
            name: hint
            for name, text in written.items()
            if (hint := _annotation_of(text, scope)) is not None
        }


def _annotation_of(annotation: Any, scope: JsonObject) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, scope)
    except (NameError, TypeError):
        return None


def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    if annotation in (MISSING, Any) or isinstance(annotation, str):
        return None
    try:
        return TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError):
        return None


def _objects(schema: Any) -> Iterator[JsonView]:
    """Yield the schemas of objects with properties, at any depth."""
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        yield schema
    for inner in (
        schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    ):
        yield from _objects(inner)


def _is_open(schema: JsonView) -> bool:
    return bool(schema.get("additionalProperties"))
