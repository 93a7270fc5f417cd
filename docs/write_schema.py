"""Writes docs/reference/agent-run.schema.json, the JSON Schema of the workflow's input: `make docs`. A test
compares the two.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from perdure.protocol.run import RunInput

FILE = Path(__file__).with_name("reference") / "agent-run.schema.json"
ADDRESS = "https://json-schema.org/draft/2020-12/schema"
INTERNAL = ("carried", "lineage")
"""What perdure itself writes into the input."""
KINDS = ["function", "mcp", "openapi", "prompty", "perdure.offered"]
WRITTEN_IN = re.compile(r"perdure\.(\w+|protocol\.\w+)")
EXAMPLE = {
    "agent": {"model": {"id": "gpt-4.1-mini", "provider": "openai"}},
    "messages": [{"role": "user", "content": "Hello"}],
}


def text() -> str:
    """The whole file, as it should be."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of what starts `perdure.AgentRun` from another SDK, the UI or a schedule."""
    found = RunInput.model_json_schema(by_alias=True)
    for name in INTERNAL:
        del found["properties"][name]
    parts = found["$defs"]
    found["properties"]["options"] = {"$ref": "#/$defs/RecordedOptions", "default": {}}
    del parts["OpenApiTool"]["properties"]["recorded"]
    parts["CustomTool"]["properties"]["kind"]["not"] = {"enum": KINDS}
    tools = parts["Agent"]["properties"]["tools"]["anyOf"][0]["items"]
    tools["anyOf"] = [
        each for each in tools.pop("oneOf") if not each["$ref"].endswith("/OfferedFunction")
    ]
    parts = found["$defs"] = {name: parts[name] for name in sorted(_used(found, parts))}
    _describe({"RunInput": found, **parts})
    content = parts["Message"]["properties"].pop("parts")
    written = {
        "anyOf": [content, {"type": "string"}],
        "description": "Parts, or a text for one text part.",
    }
    parts["Message"]["properties"] |= {
        "content": written,
        "parts": {**written, "description": "The same as content."},
    }
    head = {
        "$schema": ADDRESS,
        "title": "The input of the workflow perdure.AgentRun",
        "examples": [EXAMPLE],
    }
    return head | {"description": "Everything but agent and messages has a default."} | _bare(found)


def _describe(parts: dict[str, Any]) -> None:
    """Give each field the text that stands under it in the source."""
    classes = {
        model.__name__: model
        for model in _models(BaseModel)
        if WRITTEN_IN.fullmatch(model.__module__)
    }
    for name, part in parts.items():
        part.pop("description", None)
        texts: dict[str, str] = {}
        for model in reversed(classes[name].__mro__):
            if issubclass(model, BaseModel) and model is not BaseModel:
                texts |= field_texts(model)
        aliases = {field.alias or key: key for key, field in classes[name].model_fields.items()}
        for alias, field in part.get("properties", {}).items():
            if described := texts.get(aliases.get(alias, alias)):
                field["description"] = described


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Field → the text that stands under it in the source of the model itself, without those of its
    bases.
    """
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, after in pairwise(body.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                texts[name] = re.sub(r"\s+", " ", text).strip()
    return texts


def _used(found: dict[str, Any], parts: dict[str, Any]) -> set[str]:
    """The names of the definitions that the schema leads to."""
    used: set[str] = set()
    new = set(_references({key: value for key, value in found.items() if key != "$defs"}))
    while new:
        used |= new
        new = {name for known in new for name in _references(parts[known])} - used
    return used


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)


def _bare(value: Any, *, of_names: bool = False) -> Any:
    """The schema without the titles that only repeat the names of the fields."""
    if isinstance(value, list):
        return [_bare(child) for child in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _bare(child, of_names=key in ("properties", "$defs") and not of_names)
        for key, child in value.items()
        if of_names or key not in ("title", "discriminator")
    }


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
