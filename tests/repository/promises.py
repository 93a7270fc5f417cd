"""The names that docs/operations/upgrades.md promises to keep, read from the code.

`python -m tests.repository.promises` adds new ones to `promised.txt`, with each release. A line that
goes from there is a break: it belongs under *Removed* in CHANGELOG.md.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

from pydantic import BaseModel

from perdure.cli.app import TableCommand
from perdure.cli.table import COMMANDS
from perdure.event_data import EVENT_DATA
from perdure.gateway.operations import openapi_document
from perdure.gateway.own import OPERATIONS
from perdure.protocol import names, search_attributes

ROOT = Path(__file__).parents[2]
PROMISED = Path(__file__).with_name("promised.txt")
ROOMS = ("perdure", *(f"perdure.{name}" for name in ("client", "worker", "tools", "testing")))
MEASURED = ("worker/metrics.py", "worker/gauges.py")


def promises() -> set[str]:
    """One line for each name."""
    found = [*(line for room in ROOMS for line in _python(import_module(room)))]
    found += [*_commands(), *_events(), *_http(), *_schema(), *_metrics(), *_variables()]
    found += [f"search attribute {each.name}" for each in search_attributes.ALL]
    temporal = ("WORKFLOW", "SESSION_WORKFLOW", "STEER", "APPROVAL", "GO_ON", "COMPLETE", "SEND")
    return {
        *found,
        *(f"Temporal {getattr(names, each)}" for each in (*temporal, "CLOSE", "STATUS")),
    }


def _python(room: ModuleType) -> Iterator[str]:
    for name in room.__all__:
        value, shown = getattr(room, name), f"{room.__name__}.{name}"
        yield f"Python {shown}"
        if inspect.isclass(value) and issubclass(value, BaseModel):
            yield from (f"Python {shown}.{field}" for field in value.model_fields)
        elif inspect.isfunction(value):
            parameters = inspect.signature(value).parameters
            yield from (f"Python {shown}({parameter})" for parameter in parameters)


def _commands() -> Iterator[str]:
    for name, command in COMMANDS.items():
        for title, each in (command.subcommands() or {"": command}).items():
            shown = f"{name} {title}".strip()
            yield f"command {shown}"
            for parameter in TableCommand(name, each).params:
                yield from (
                    f"command {shown} {option}"
                    for option in (*parameter.opts, *parameter.secondary_opts)
                    if option.startswith("-")
                )


def _events() -> Iterator[str]:
    for type, data in EVENT_DATA.items():
        yield f"event {type}"
        yield from (f"event {type} {key}" for key in get_type_hints(data))


def _http() -> Iterator[str]:
    document = openapi_document(OPERATIONS, title="")
    for path, operations in document["paths"].items():
        yield from (f"HTTP {method.upper()} {path}" for method in operations)
    yield from _properties("HTTP", document["components"]["schemas"])


def _schema() -> Iterator[str]:
    file = ROOT / "docs" / "reference" / "agent-run.schema.json"
    yield from _properties("run input", json.loads(file.read_text(encoding="utf-8"))["$defs"])


def _properties(what: str, schemas: dict[str, dict[str, object]]) -> Iterator[str]:
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        assert isinstance(properties, dict)
        yield from (f"{what} {name}.{key}" for key in properties)


def _metrics() -> Iterator[str]:
    for file in MEASURED:
        tree = ast.parse((ROOT / "perdure" / file).read_text(encoding="utf-8"))
        texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        yield from (
            f"metric or label {text}"
            for text in texts
            if isinstance(text, str) and re.fullmatch(r"(gen_ai|perdure)_[a-z_]+", text)
        )


def _variables() -> Iterator[str]:
    page = (ROOT / "docs" / "operations" / "operating.md").read_text(encoding="utf-8")
    section = page.partition("## Every variable")[2].partition("\n## ")[0]
    yield from (f"variable {name}" for name in re.findall(r"`(PERDURE_\w+)`", section))


if __name__ == "__main__":
    kept = set(PROMISED.read_text(encoding="utf-8").splitlines()) if PROMISED.exists() else set()
    PROMISED.write_text("\n".join(sorted(kept | promises())) + "\n", encoding="utf-8")
