"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunId = Annotated[str, typer.Argument(metavar="ID", help="The run's id, as `perdure run` and `perdure ls` print it.")]
AgentFile = Annotated[Path, typer.Argument(metavar="AGENT.prompty", help="The agent's file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
Tools = Annotated[
    list[str] | None,
    typer.Option("--tools", metavar="MODULE:NAMES", help="Tools: module:a,b or file.py:a,b; module alone: its @tools."),
]
GuardrailNames = Annotated[
    list[str] | None,
    typer.Option("--guardrails", metavar="MODULE:NAME", help="Guardrails, registered under NAME."),
]
Compactors = Annotated[
    list[str] | None,
    typer.Option("--compactor", metavar="MODULE:NAME", help="A function that summarises, registered under NAME."),
]
TaskQueue = Annotated[str, typer.Option("--task-queue", metavar="NAME", help="The queue that workers poll.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input; NAME=@FILE takes it from a file."),
]
InputsJson = Annotated[
    Path | None, typer.Option("--inputs-json", metavar="FILE", help="A JSON object with inputs by name.")
]
