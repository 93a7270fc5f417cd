"""Inputs against the kinds that an agent declares for them, before a run starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from ..agents import Agent
from ..declared_tools import Property
from ..errors import RenderError
from ..prompty.rich_values import MEDIA, media_parts, thread_messages
from ..providers.structured import output_faults


def require_kinds(agent: Agent, inputs: Mapping[str, Any]) -> None:
    """Raises RenderError for a value that is not of its input's declared kind, or not one of its `enumValues`.

    Null is as good as no value where none is required. Inputs that are not declared pass.
    """
    for declared in agent.inputs or ():
        value = inputs.get(declared.name)
        if value is None and not (declared.required and declared.name in inputs):
            continue
        if fault := _fault(declared, value):
            raise RenderError(f"input {declared.name!r}: {fault}. The agent declares it with the kind {declared.kind}")


def _fault(declared: Property, value: Any) -> str:
    """Return why a value is not what is declared; "" when it is."""
    name, kind = declared.name, declared.kind
    if kind == "thread":
        return "" if thread_messages(name, value) is not None else f"{value!r:.200} is not a list of messages"
    if kind in MEDIA:
        try:
            media_parts(name, kind, value)
        except RenderError:
            return f"{value!r:.200} is not a text, or a map with `source`"
        return ""
    given = to_jsonable_python(value, fallback=str)
    faults = output_faults({name: given}, [declared.model_copy(update={"required": True})])
    return faults[0].removeprefix(f"$.{name}").lstrip(": ") if faults else ""
