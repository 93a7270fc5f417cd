"""The agents of the runs, as files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import yaml

from ..home import ROOT

QUEUE = "chaos"


def _function(name: str) -> dict[str, Any]:
    return {"name": name, "kind": "function", "parameters": [{"name": "text", "kind": "string"}]}


def write(folder: Path, services: str) -> None:
    """Write `main.prompty`, which all shapes use, and the agents that it calls or hands over to."""
    functions = ["step", "slow", "pay", "approved", "in_thread", "local_note", "apart"]
    functions += ["hangs", "large"]
    environment = {"CHAOS_FOLDER": str(folder), "PYTHONPATH": str(ROOT)}
    notes = {
        "name": "notes",
        "kind": "mcp",
        "options": {
            "command": sys.executable,
            "args": ["-m", "cluster.chaos.notes_server"],
            "env": environment | {"PATH": os.environ["PATH"]},
            "discoveryTimeout": 50,
        },
    }
    entries = {"name": "entries", "kind": "openapi", "specification": f"{services}/openapi.json"}
    clerk = {"name": "clerk", "kind": "prompty", "path": "clerk.prompty", "mode": "agentic"}
    plain = [_function(name) for name in functions]
    handoffs = {"metadata": {"perdure": {"handoffs": ["billing.prompty"]}}}
    asking = {"name": "ask_user", "kind": "builtin"}
    _file(folder, services, "main", [*plain, asking, entries], handoffs)
    _file(folder, services, "kinds", [*plain, notes])
    _file(folder, services, "chief", [*plain, clerk])
    _file(folder, services, "billing", plain, {"description": "Takes money."})
    question = {"inputs": [{"name": "question", "kind": "string", "required": True}]}
    _file(folder, services, "clerk", plain, {"description": "Knows files.", **question})


def _file(
    folder: Path,
    services: str,
    name: str,
    tools: list[dict[str, Any]],
    more: dict[str, Any] | None = None,
) -> None:
    connection = {"kind": "key", "endpoint": f"{services}/v1", "apiKey": "${env:OPENAI_API_KEY}"}
    model = {"id": name, "provider": "openai", "connection": connection}
    head = {"name": name, "model": model, "tools": tools, **(more or {})}
    body = "system:\nYou work.\n"
    if "inputs" in head:
        body += "\nuser:\n{{question}}\n"
    (folder / f"{name}.prompty").write_text(f"---\n{yaml.safe_dump(head)}---\n{body}")
