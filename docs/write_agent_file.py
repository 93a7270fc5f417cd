"""Writes docs/reference/agent-file.md, the keys that a `.prompty` file may have, from the types: `make docs`.
A test compares.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from perdure.agents import Agent, FormatConfig, Model, ModelOptions, ParserConfig, Template
from perdure.declared_tools import (
    ApprovalPolicy,
    Binding,
    Connection,
    CustomTool,
    FunctionTool,
    McpApprovalMode,
    McpTool,
    Node,
    OpenApiTool,
    PromptyTool,
    Property,
    Tool,
    ToolPolicy,
)
from perdure.options import RunOptions
from perdure.settings.agent_file import OPTION_NAMES

try:
    from .write_schema import field_texts
except ImportError:  # run as a script
    from write_schema import field_texts

FILE = Path(__file__).with_name("reference") / "agent-file.md"
EXAMPLES = Path(__file__).with_name("agent_files")
HIDDEN: dict[type[Node], set[str]] = {OpenApiTool: {"recorded"}, FunctionTool: {"of"}}
OF_LOCKS = {"locked"}
"""Fields that perdure writes itself; the latter those of any tool."""
OF_EVERY_TOOL = {
    name: CustomTool.model_fields[name]
    for name in ("name", "kind", "description", "bindings", "perdure")
} | {"kind": FieldInfo(annotation=str, default=FunctionTool.model_fields["kind"].default)}
"""The keys of any tool; one without `kind` is a function."""


class Section(NamedTuple):
    """A part of the page: a text, tables of keys, and a file of `EXAMPLES`."""

    title: str
    text: str
    models: tuple[type[Node], ...]
    example: str


SECTIONS = (
    Section(
        "The file",
        "The front matter, between two lines of `---`; then the body.",
        (Agent,),
        "librarian",
    ),
    Section(
        "The model",
        "`model: gpt-4.1-mini` is short for `model: {id: gpt-4.1-mini}`. Which providers there "
        "are, and a file for\n"
        "each: [providers](providers.md). A key or another secret is a reference, never a "
        "literal:\n"
        "[credentials](../operations/credentials.md).",
        (Model, ModelOptions, Connection),
        "model",
    ),
    Section(
        "Inputs, outputs, parameters",
        "A list of properties, or a map by their names. In a map, a value without `kind` is an "
        "input's default, which\n"
        "also says its kind. With `outputs`, the answer is an object with these fields, and the "
        "model is told until\n"
        "it fits. An answer of another kind, such as a list, is one property in "
        "`metadata.perdure.output`:\n"
        "[typed answers](../guides/python.md#typed-answers).",
        (Property, Template, FormatConfig, ParserConfig),
        "inputs",
    ),
    Section(
        "Media and conversations",
        "An input of kind `image`, `file` or `audio` stands where it is in the body; one of kind "
        "`thread` is a list\n"
        "of messages, which come in its place. What each provider takes: [media](../guides/media.md).",
        (),
        "media",
    ),
    Section(
        "Tools",
        "A list of tools, or a map by their names. [Functions](../guides/tools.md), [MCP "
        "servers](../guides/tools-mcp.md),\n"
        "[HTTP APIs](../guides/tools-openapi.md), [other agents](../guides/other-agents.md#a-file-as-a-tool), [remote "
        "agents](../guides/other-agents.md#a-remote-agent-by-a2a),\n"
        "[activities and workflows](../guides/temporal-interop.md), [kinds of your own](../guides/tool-kinds.md), and\n"
        "[`kind: toolset`](../guides/tools.md#toolsets), which stands for the tools of a list.",
        (
            FunctionTool,
            ToolPolicy,
            ApprovalPolicy,
            Binding,
            McpTool,
            McpApprovalMode,
            OpenApiTool,
            PromptyTool,
            CustomTool,
        ),
        "tools",
    ),
)
HEADINGS = {
    Agent: "At the top",
    Property: "A property",
    Template: "`template`",
    FormatConfig: "`template.format`",
    ParserConfig: "`template.parser`",
    Model: "`model`",
    ModelOptions: "`model.options`",
    Connection: "`connection`, of a model or a tool",
    FunctionTool: "`kind: function`",
    ToolPolicy: "`perdure`, of any tool",
    ApprovalPolicy: "`perdure.approval`, where it is a map",
    Binding: "`bindings.PARAMETER`",
    McpTool: "`kind: mcp`",
    McpApprovalMode: "`approvalMode`",
    OpenApiTool: "`kind: openapi`",
    PromptyTool: "`kind: prompty`",
    CustomTool: "Any other `kind`",
}
INTRODUCTION = """\
# What may a .prompty file contain?

Every key, from the types that files are read into (this page is written by `make docs`), and files that show them,
which the tests run. `perdure validate FILE` names keys that mean nothing, and where a value does not fit.
[Which files can I run](../guides/prompty-files.md) has the small liberties, the first format and the limits of templates.
"""
BODY = """\
## The body

After the front matter comes a template in Jinja2. A line that is a role and a colon (`system:`, `user:`, `assistant:`)
begins a message. `{{name}}` is the value of an input. A role that comes from a text of a user begins no message.

A history that is no `thread` can be a loop:

```jinja
{% for item in history %}
{{item.role}}:
{{item.content}}
{% endfor %}
```

In the front matter, `${env:NAME}` is a variable of the environment, `${env:NAME:default}` has a value where it is not
set, and `${file:PATH}` is the content of a file beside this one.
"""


def page() -> str:
    """The whole page, as it should be."""
    return "\n".join(
        [
            INTRODUCTION,
            *(line for section in SECTIONS for line in _section(section)),
            *_settings(),
            BODY,
        ]
    )


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}\n\n{section.text}\n"
    if CustomTool in section.models:
        yield from _table("Any tool", OF_EVERY_TOOL, texts(CustomTool))
    for model in section.models:
        yield from _table(HEADINGS[model], keys(model), texts(model))
    yield _example(section.example)


def _table(heading: str, rows: Mapping[str, FieldInfo], described: dict[str, str]) -> Iterator[str]:
    yield f"### {heading}\n\n| key | value | default | what it is |\n| --- | --- | --- | --- |"
    yield "\n".join(_row(key, field, described) for key, field in rows.items()) + "\n"


def keys(model: type[Node]) -> dict[str, FieldInfo]:
    """The keys that a file may have there, without those that every tool has."""
    hidden = (
        OF_LOCKS
        | HIDDEN.get(model, set())
        | (OF_EVERY_TOOL.keys() if "perdure" in model.model_fields else set())
    )
    return {
        field.alias or name: field
        for name, field in model.model_fields.items()
        if name not in hidden
    }


def _row(key: str, field: FieldInfo, described: dict[str, str]) -> str:
    default = "" if field.default in (PydanticUndefined, None, False, "") else f"`{field.default}`"
    required = "**required**" if field.is_required() else default
    return f"| `{key}` | {_type(field.annotation)} | {required} | {described.get(key, '')} |"


def _type(annotation: Any) -> str:
    """What people call a type."""
    arguments = [each for each in get_args(annotation) if each is not type(None)]
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if get_origin(annotation) is list:
        return f"list of {_type(arguments[0])}"
    if get_origin(annotation) is dict:
        return f"map of {_type(arguments[1])}" if inspect.isclass(arguments[1]) else "map"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "any"}
    if annotation in names:
        return names[annotation]
    if inspect.isclass(annotation):
        return {"ToolPolicy": "policy", "ApprovalPolicy": "map", "ModelOptions": "options"}.get(
            annotation.__name__, annotation.__name__.lower()
        )
    if get_origin(annotation) is Annotated and annotation != Tool:
        return _type(arguments[0])
    return "tool" if annotation == Tool else " or ".join(dict.fromkeys(map(_type, arguments)))


def texts(model: type[BaseModel]) -> dict[str, str]:
    """Key → the text under the field in the source."""
    bases = [each for each in reversed(model.__mro__) if each.__module__.startswith("perdure.")]
    found = {name: text for each in bases for name, text in field_texts(each).items()}
    return {
        model.model_fields[name].alias or name: text
        for name, text in found.items()
        if name in model.model_fields
    }


def _settings() -> Iterator[str]:
    yield (
        "## Settings of runs\n\nIn `metadata.perdure`: defaults for runs of this agent; a caller's "
        "own come first.\n"
    )
    yield "| key | default | what it is |\n| --- | --- | --- |"
    described = texts(RunOptions)
    for key, name in OPTION_NAMES.items():
        default = RunOptions.model_fields[name].default
        yield (
            f"| `{key}` | {'' if default is None else f'`{json.dumps(default)}`'} | "
            f"{described.get(name, '')} |"
        )
    yield (
        "| `session` | | Of [sessions](../guides/sessions.md): `idleTimeout` (s), `whileBusy` (`steer`, "
        "`queue`, `reject`). |\n"
        "| `agents` | | Agents that it may hand a task to: [other agents](../guides/other-agents.md#a-file-as-a-tool). |\n"
        "| `handoffs` | | Agents as which a run may go on: [agents in "
        "code](../guides/agents-in-code.md#handoffs). |\n"
    )
    yield _example("settings")


def _example(name: str) -> str:
    file = EXAMPLES / f"{name}.prompty"
    return (
        f"[{file.name}](../agent_files/{file.name}):\n\n```yaml\n{file.read_text().strip()}\n```\n"
    )


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
