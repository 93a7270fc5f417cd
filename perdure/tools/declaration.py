"""Completes a tool's declaration by its function, and compares the two (§2.8, §11). Pure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..agent import Agent, FunctionTool, Property, Tool
from .docstrings import described
from .properties import property_of
from .signature import MISSING, Parameter, signature_of

Function = Callable[..., Any]
FILE_MODULE = "perdure_tools_"
"""How the names of modules begin that are made of files."""


def written_declaration(name: str, function: Function, description: str | None = None) -> FunctionTool:
    """What signature and docstring of the function say; `description` replaces the docstring's first paragraph."""
    said = described(function)
    parameters = [
        _property(parameter, said.parameters.get(parameter.name))
        for parameter in signature_of(function).parameters.values()
    ]
    return FunctionTool(name=name, description=description or said.summary, parameters=parameters)


def completed(tool: Tool, function: Function, *, without: Container[str] = ()) -> Tool:
    """The declaration, with the function's own description and parameters where it has none itself.

    Parameters of the function that are in `without` are none of the model's. It is the same object if nothing was
    missing. A tool of another kind, which its function overrides (§9.2), is one of its own parameters where the file
    declares any, else a function's.
    """
    if not isinstance(tool, FunctionTool):
        if has_parameters(tool):
            return tool
        tool = FunctionTool(name=tool.name, description=tool.description, bindings=tool.bindings, perdure=tool.perdure)
    written = declaration_of(function, without)
    fields = ("description", "parameters")
    missing = {field: getattr(written, field) for field in fields if getattr(tool, field) is None}
    found = {field: value for field, value in missing.items() if value}
    return tool.model_copy(update=found) if found else tool


def has_parameters(tool: Tool) -> bool:
    """Whether the file itself declares what the model may say."""
    return getattr(tool, "parameters", None) is not None


def contradiction(tool: Tool, function: Function, *, without: Container[str] = ()) -> str | None:
    """How a declaration and its function contradict each other, with both; None if they do not, or can't be compared.

    A function that can't be inspected accepts everything, and a parameter without a type any kind.
    """
    if not isinstance(tool, FunctionTool):
        return None
    written = declaration_of(function, without)
    problems = list(_problems(tool, written.parameters or [], takes_anything=signature_of(function).takes_anything))
    if not problems:
        return None
    declared = "no parameters of its own" if tool.parameters is None else shown(tool.name, tool.parameters)
    bound = f", with {', '.join(tool.bindings)} bound to inputs" if tool.bindings else ""
    taken = shown(_name(function), written.parameters or [])
    return (
        f"The declaration of tool '{tool.name}' contradicts its function: {'; '.join(problems)}. The file declares "
        f"{declared}{bound}; the function is {taken} in {place_of(function)}. "
        "Make the two agree, or leave out `parameters` in the file: then those of the function are offered"
    )


def offering(agent: Agent, names: Iterable[str]) -> Agent:
    """The agent, with a function tool for each name that it does not declare yet (§9.2)."""
    added = [FunctionTool(name=name) for name in names if agent.tool(name) is None]
    return agent.model_copy(update={"tools": [*(agent.tools or []), *added]}) if added else agent


def declaration_of(function: Function, without: Container[str] = ()) -> FunctionTool:
    """The declaration that the function itself makes; parameters that are in `without` are none of the model's."""
    declared = getattr(function, "__tool__", None)
    if not isinstance(declared, FunctionTool):
        try:
            declared = _remembered(function)
        except TypeError:  # a callable object that can't be a key
            declared = written_declaration("", function)
    if not any(prop.name in without for prop in declared.parameters or []):
        return declared
    kept = [prop for prop in declared.parameters or [] if prop.name not in without]
    return declared.model_copy(update={"parameters": kept})


@lru_cache(maxsize=4096)
def _remembered(function: Function) -> FunctionTool:
    return written_declaration("", function)


def _problems(tool: FunctionTool, taken: Sequence[Property], *, takes_anything: bool) -> Iterator[str]:
    by_name = {prop.name: prop for prop in taken}
    declared = {prop.name: prop for prop in tool.parameters or []}
    bound = tool.bindings or {}
    for name in [] if takes_anything else [*declared, *(name for name in bound if name not in declared)]:
        if name not in by_name:
            yield f"'{name}' is {'declared' if name in declared else 'bound'}, and the function does not have it"
    for name, prop in by_name.items():
        if tool.parameters is not None and prop.required and name not in declared and name not in bound:
            yield f"the function requires '{name}', which is neither declared nor bound"
        if name in declared and name not in bound and not _kinds(declared[name]) & _kinds(prop):
            yield f"'{name}' is declared as {declared[name].kind}, and the function takes {prop.kind}"


_ALIKE = {"integer": "number", "float": "number", "image": "string", "file": "string", "audio": "string"}
"""Kinds whose values are written alike in JSON, in so far as a function may take the one for the other."""


def _kinds(prop: Property) -> set[str]:
    if prop.kind == "union":
        return {kind for option in (prop.one_of or prop.any_of or []) for kind in _kinds(option)}
    return {"array" if prop.kind == "thread" else _ALIKE.get(prop.kind, prop.kind)}


def shown(name: str, parameters: Sequence[Property]) -> str:
    """A declaration in one line, such as `pay(claim: string, euros?: float)`."""
    listed = (f"{prop.name}{'' if prop.required else '?'}: {prop.kind}" for prop in parameters)
    return f"{name}({', '.join(listed)})"


def _name(function: Function) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def place_of(function: Function) -> str:
    """The module that the function is defined in; for one that was made of a file, the file's name."""
    module = getattr(function, "__module__", None) or "an unknown module"
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).name if file and module.startswith(FILE_MODULE) else module


def _property(parameter: Parameter, text: str | None) -> Property:
    of_type = property_of(parameter.name, parameter.annotation, parameter.adapter)
    known = of_type.model_copy(update={"description": of_type.description or text})
    if parameter.default is MISSING:
        return known.model_copy(update={"required": True})
    return known.model_copy(update={"default": _plain_default(parameter.default)})


def _plain_default(value: Any) -> Any:
    """The default as JSON can hold it; None when it has no such form."""
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        return None
