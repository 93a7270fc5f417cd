"""Agents that call each other, as files, and the models that they talk to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure.json_types import JsonObject, JsonView
from perdure.testing import ScriptedModel, ScriptedReply
from perdure.testing.script import ScriptedRequest

Replies = Sequence[ScriptedReply] | Callable[[ScriptedRequest], ScriptedReply]


def family_script(replies: Mapping[str, Replies]) -> Callable[[ScriptedRequest], ScriptedReply]:
    """A script for several agents: what the model of each name answers, step by step."""

    def reply(request: ScriptedRequest) -> ScriptedReply:
        script = replies[request.body["model"]]
        return script(request) if callable(script) else script[request.step]

    return reply


def write_agent(
    folder: Path,
    path: str,
    model: ScriptedModel | None = None,
    *,
    tools: Sequence[JsonView] = (),
    prompt: str = "system:\nYou are {name}.",
    **fields: Any,
) -> Path:
    """Write an agent's file; its model has the name of the file."""
    file, name = folder / path, Path(path).stem
    file.parent.mkdir(parents=True, exist_ok=True)
    endpoint = model.openai_endpoint if model else "http://127.0.0.1:9"
    connection = {"kind": "key", "endpoint": endpoint}
    frontmatter = {
        "name": name,
        "model": {"id": name, "provider": "openai", "apiType": "chat", "connection": connection},
        "tools": list(tools),
        **fields,
    }
    file.write_text(
        f"---\n{json.dumps(frontmatter, indent=1)}\n---\n{prompt.replace('{name}', name)}\n"
    )
    return file


def calls(path: str, name: str = "", **more: Any) -> JsonObject:
    """A tool that is another agent with its own loop."""
    return {
        "name": name or Path(path).stem,
        "kind": "prompty",
        "path": path,
        "mode": "agentic",
        **more,
    }


def takes(*names: str) -> list[JsonObject]:
    """Inputs that are texts."""
    return [{"name": name, "kind": "string", "required": True} for name in names]
