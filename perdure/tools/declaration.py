"""Completes a tool's declaration from its function: types as properties, and the docstring (§2.8,
§11). Pure.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..agents import Agent
from ..declared_tools import FunctionTool, Property, PropertyKind, Tool
from ..json_types import JsonObject, JsonView
from ..loading import FILE_MODULE
from .signature import MISSING, FunctionParameter, signature_of

Schema = JsonView

_KINDS: dict[str, PropertyKind] = {
    "string": "string",
    "integer": "integer",
    "number": "float",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}


class _Definitions(JsonObject):
    """The types that a schema refers to, by name."""

    has_values = False
    """Whether dicts are declared with the type of their values."""


def property_of(
    name: str, annotation: Any, adapter: TypeAdapter[Any] | None, *, has_values: bool = False
) -> Property:
    """Return the property for a parameter of that type; without a useful type, one that accepts
    anything.

    With `has_values`, the property also describes the values of a dict, as `outputs` can.
    """
    schema = adapter.json_schema() if adapter else {}
    definitions = _Definitions(schema.get("$defs", {}))
    definitions.has_values = has_values
    described = _property_of(schema, definitions, frozenset())
    return described.model_copy(
        update={"name": name, "description": described.description or _annotated_text(annotation)}
    )


def _annotated_text(annotation: Any) -> str | None:
    """Return the text of `Annotated[int, "in metres"]`."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((extra for extra in get_args(annotation)[1:] if isinstance(extra, str)), None)


def _property_of(schema: Schema, definitions: _Definitions, seen: frozenset[str]) -> Property:
    """`seen` has the enclosing definitions: a type that contains itself is described as a plain
    object there.
    """
    reference = schema.get("$ref")
    if reference in seen:
        return Property(kind="object", description=schema.get("description"))
    if reference:
        target = definitions[reference.rpartition("/")[2]]
        return _property_of(
            {**target, **_schema_without(schema, "$ref")}, definitions, seen | {reference}
        )
    described = _alternatives(schema, definitions, seen) or _plain(schema, definitions, seen)
    return described.model_copy(
        update={
            "description": schema.get("description") or described.description,
            "default": schema.get("default"),
        }
    )


def _alternatives(
    schema: Schema, definitions: _Definitions, seen: frozenset[str]
) -> Property | None:
    keyword = "oneOf" if "oneOf" in schema else "anyOf"
    options = [option for option in schema.get(keyword, []) if option != {"type": "null"}]
    if not options:
        return None
    nullable = len(options) < len(schema[keyword])
    properties = [_alternative(option, definitions, seen) for option in options]
    if len(properties) == 1:
        return properties[0].model_copy(update={"nullable": nullable or properties[0].nullable})
    union = {"one_of": properties} if keyword == "oneOf" else {"any_of": properties}
    return Property(kind="union", nullable=nullable, **union)


def _alternative(schema: Schema, definitions: _Definitions, seen: frozenset[str]) -> Property:
    """Return one of several alternatives, named after its type."""
    described = _property_of(schema, definitions, seen)
    return described.model_copy(update={"name": schema.get("$ref", "").rpartition("/")[2]})


def _plain(schema: Schema, definitions: _Definitions, seen: frozenset[str]) -> Property:
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if values:
        return Property(kind=_kind_of_value(values[0]), enum_values=list(values))
    kind = _KINDS.get(schema.get("type", ""))
    if kind is None:
        return _anything()
    described = Property(kind=kind)
    if kind == "array" and schema.get("items"):
        described.items = _property_of(schema["items"], definitions, seen)
    if kind == "object" and schema.get("properties"):
        required = schema.get("required", [])
        described.properties = [
            _property_of(member, definitions, seen).model_copy(
                update={"name": name, "required": name in required}
            )
            for name, member in schema["properties"].items()
        ]
    elif definitions.has_values and isinstance(values := schema.get("additionalProperties"), dict):
        described.values = _property_of(values, definitions, seen)
    return described


def _kind_of_value(value: Any) -> PropertyKind:
    if isinstance(value, bool):
        return "boolean"
    return (
        "integer" if isinstance(value, int) else "float" if isinstance(value, float) else "string"
    )


def _anything() -> Property:
    kinds: tuple[PropertyKind, ...] = ("string", "float", "boolean", "array", "object")
    return Property(kind="union", any_of=[Property(kind=kind) for kind in kinds])


def _schema_without(schema: Schema, key: str) -> JsonObject:
    return {name: value for name, value in schema.items() if name != key}


class Docstring(NamedTuple):
    """The contents of a docstring."""

    summary: str | None
    """Its first paragraph, in one line."""
    parameters: dict[str, str]
    """By name, each in one line."""


def docstring_of(function: Callable[..., Any]) -> Docstring:
    """Return the contents of the function's docstring; never raises."""
    while isinstance(function, partial):
        function = function.func
    text = inspect.getdoc(function) or ""
    if "\n" not in text:
        return Docstring(_one_line(text), {})
    # Only a docstring of several lines can describe parameters.
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docstring(_first_paragraph(text), {})
    parameters = {
        each.arg_name: line for each in parsed.params if (line := _one_line(each.description or ""))
    }
    return Docstring(_first_paragraph(parsed.description or "" if parameters else text), parameters)


def _first_paragraph(text: str) -> str | None:
    return _one_line(text.split("\n\n")[0])


def _one_line(text: str) -> str | None:
    return " ".join(text.split()) or None


Function = Callable[..., Any]


def written_declaration(
    name: str, function: Function, description: str | None = None
) -> FunctionTool:
    """Return the declaration from the function's signature and docstring; `description` replaces
    the docstring's first paragraph.
    """
    said = docstring_of(function)
    parameters = [
        _property(parameter, said.parameters.get(parameter.name))
        for parameter in signature_of(function).parameters.values()
    ]
    return FunctionTool(name=name, description=description or said.summary, parameters=parameters)


def completed_declaration(tool: Tool, function: Function, *, without: Collection[str] = ()) -> Tool:
    """Return the declaration, completed with the function's own description and parameters.

    Parameters of the function in `without` are hidden from the model. Returns the same object if
    nothing was missing. A tool of another kind that its function overrides (§9.2) keeps the
    parameters of the file, if it declares any, else gets the function's.
    """
    if not isinstance(tool, FunctionTool):
        if has_parameters(tool):
            return tool
        tool = FunctionTool(
            name=tool.name,
            description=tool.description,
            bindings=tool.bindings,
            perdure=tool.perdure,
        )
    unwritable = (
        name for name, each in signature_of(function).parameters.items() if not each.has_json_form
    )
    written = declaration_of(function, {*without, *unwritable})
    fields = ("description", "parameters")
    missing = {field: getattr(written, field) for field in fields if getattr(tool, field) is None}
    found = {field: value for field, value in missing.items() if value}
    return tool.model_copy(update=found) if found else tool


def has_parameters(tool: Tool) -> bool:
    """Return whether the file itself declares the model's parameters."""
    return getattr(tool, "parameters", None) is not None


def contradiction(tool: Tool, function: Function, *, without: Collection[str] = ()) -> str | None:
    """Return how a declaration and its function contradict each other, with both; None if they
    agree, or can't be compared.

    A function that can't be inspected accepts everything, and a parameter without a type any kind.
    """
    if not isinstance(tool, FunctionTool):
        return None
    unwritable = _unwritable(tool, function, without)
    written = declaration_of(function, {*without, *unwritable})
    problems = list(
        _problems(
            tool, written.parameters or [], takes_anything=signature_of(function).takes_anything
        )
    )
    problems += unwritable.values()
    if not problems:
        return None
    declared = (
        "no parameters of its own"
        if tool.parameters is None
        else declaration_line(tool.name, tool.parameters)
    )
    bound = f", with {', '.join(tool.bindings)} bound to inputs" if tool.bindings else ""
    taken = declaration_line(_name(function), written.parameters or [])
    return (
        f"The declaration of tool '{tool.name}' contradicts its function: {'; '.join(problems)}. "
        f"The file declares {declared}{bound}; the function is {taken} in {place_of(function)}. "
        "Make the two agree, or leave out `parameters` in the file: then those of the function are "
        "offered"
    )


def _unwritable(tool: FunctionTool, function: Function, without: Collection[str]) -> dict[str, str]:
    """Return a sentence for each required parameter that nothing fills: its type has no JSON form,
    so that no model can write a value.
    """
    given = {*without, *(prop.name for prop in tool.parameters or ()), *(tool.bindings or ())}
    return {
        name: _why_unwritable(name, parameter.annotation, place_of(function))
        for name, parameter in signature_of(function).parameters.items()
        if not (parameter.has_json_form or name in given or parameter.default is not MISSING)
    }


def _why_unwritable(name: str, annotation: Any, place: str) -> str:
    if isinstance(annotation, str):
        return f"the annotation {annotation!r} of '{name}' names nothing in {place}"
    type = getattr(annotation, "__name__", None) or str(annotation)
    return (
        f"'{name}' is a {type}, which has no JSON form that a model could write: give the worker "
        f"resources={{{type}: …}}, or use a pydantic model or a dataclass"
    )


def agent_with_tools(agent: Agent, names: Iterable[str]) -> Agent:
    """Return the agent, with a function tool for each name that it does not declare yet (§9.2)."""
    added = [FunctionTool(name=name) for name in names if agent.tool(name) is None]
    return agent.model_copy(update={"tools": [*(agent.tools or []), *added]}) if added else agent


def declaration_of(function: Function, without: Collection[str] = ()) -> FunctionTool:
    """Return the function's own declaration; parameters in `without` are hidden from the model."""
    declared = getattr(function, "__tool__", None)
    if not isinstance(declared, FunctionTool):
        try:
            declared = _cached_declaration(function)
        except TypeError:  # a callable object that can't be a key
            declared = written_declaration("", function)
    if not any(prop.name in without for prop in declared.parameters or []):
        return declared
    kept = [prop for prop in declared.parameters or [] if prop.name not in without]
    return declared.model_copy(update={"parameters": kept})


@lru_cache(maxsize=4096)
def _cached_declaration(function: Function) -> FunctionTool:
    return written_declaration("", function)


def _problems(
    tool: FunctionTool, taken: Sequence[Property], *, takes_anything: bool
) -> Iterator[str]:
    by_name = {prop.name: prop for prop in taken}
    declared = {prop.name: prop for prop in tool.parameters or []}
    bound = tool.bindings or {}
    for name in (
        [] if takes_anything else [*declared, *(name for name in bound if name not in declared)]
    ):
        if name not in by_name:
            yield (
                f"'{name}' is {'declared' if name in declared else 'bound'}, and the function does "
                "not have it"
            )
    for name, prop in by_name.items():
        if (
            tool.parameters is not None
            and prop.required
            and name not in declared
            and name not in bound
        ):
            yield f"the function requires '{name}', which is neither declared nor bound"


def declaration_line(name: str, parameters: Sequence[Property]) -> str:
    """Return a declaration in one line, such as `pay(claim: string, euros?: float)`."""
    listed = (f"{prop.name}{'' if prop.required else '?'}: {prop.kind}" for prop in parameters)
    return f"{name}({', '.join(listed)})"


def _name(function: Function) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def place_of(function: Function) -> str:
    """Return the module of the function's definition; for one from a file, the file's name."""
    module = getattr(function, "__module__", None) or "an unknown module"
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).name if file and module.startswith(FILE_MODULE) else module


def _property(parameter: FunctionParameter, text: str | None) -> Property:
    of_type = property_of(parameter.name, parameter.annotation, parameter.adapter)
    known = of_type.model_copy(update={"description": of_type.description or text})
    if parameter.default is MISSING:
        return known.model_copy(update={"required": True})
    return known.model_copy(update={"default": _plain_default(parameter.default)})


def _plain_default(value: Any) -> Any:
    """Return the default in JSON; None if it has no JSON form."""
    try:
        return to_jsonable_python(
            sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        )
    except PydanticSerializationError:
        return None
