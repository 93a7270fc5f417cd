"""The options that commands share, without those that are fields of `RunOptions`: its models take
time to import.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from .completion import open_run_ids, run_ids, session_ids
from .console import FORMAT_VARIABLE, LEVEL_VARIABLE

DEFAULT_QUEUE = "perdure"
"""The task queue of runs and workers that name none."""


def _into_environment(variable: str) -> Callable[[str | None], str | None]:
    """Makes an option the environment of this process and of those that it starts."""

    def write(value: str | None) -> str | None:
        if value:
            os.environ[variable] = value
        return value

    return write


_RUN_ID = "The run's id, as `perdure run` and `perdure ls` print it."
RunId = Annotated[str, typer.Argument(metavar="ID", help=_RUN_ID, autocompletion=run_ids)]
_ONE_OF_MANY = f"{_RUN_ID} Without one, the filters say which runs are meant."
OpenRunIds = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help=_ONE_OF_MANY, autocompletion=open_run_ids)
]
OpenRunId = Annotated[str, typer.Argument(metavar="ID", help=_RUN_ID, autocompletion=open_run_ids)]
SessionId = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="NAME",
        help="The session; default: a new one.",
        autocompletion=session_ids,
    ),
]
Scripted = Annotated[
    str | None,
    typer.Option(
        metavar="SCRIPT",
        help="A scripted model instead of the agent's: file.json or file.py:function.",
    ),
]
CallId = Annotated[
    str | None,
    typer.Argument(metavar="[CALL]", help="The id of the tool call; default: the one that waits."),
]
Digest = Annotated[
    str | None,
    typer.Option(
        metavar="DIGEST",
        help="Decide only about the call of this digest; default: the call that waits now.",
    ),
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who decides; default: this system's user."),
]
AgentFile = Annotated[Path, typer.Argument(metavar="AGENT.prompty", help="The agent's file.")]
OtherModel = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="ID", help="Another model: its id, or PROVIDER/ID for another provider."
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        help=(
            "Another provider: anthropic, azure, foundry, openai; without the connection, and "
            "key, of the file."
        ),
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint", metavar="URL", help="Another address of the model; OpenAI's form: with /v1."
    ),
]
OtherAgent = Annotated[
    Path | None,
    typer.Option(
        "--agent",
        metavar="AGENT.prompty",
        help="A file whose agent takes the place of the recorded.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Write nothing but errors to stderr.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="MODULE:NAMES",
        help="Tools: module:a,b or file.py:a,b; a module alone: its @tools.",
    ),
]
GuardrailNames = Annotated[
    list[str] | None,
    typer.Option("--guardrails", metavar="MODULE:NAME", help="Guardrails, registered under NAME."),
]
Compactors = Annotated[
    list[str] | None,
    typer.Option(
        "--compactor",
        metavar="MODULE:NAME|FILE",
        help=(
            "A function that summarises messages, registered under NAME, or a .prompty file that "
            "does, under its own."
        ),
    ),
]
Credentials = Annotated[
    str | None,
    typer.Option(
        "--credentials",
        metavar="MODULE:NAME",
        help="The secrets of ${credential:ID}: a mapping, or a function from an id to its secret.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        "-y",
        help="Go on without being asked about code, commands and variables of a recorded run.",
    ),
]
YesToAll = Annotated[
    bool, typer.Option("--yes", "-y", help="Do it with all of them without being asked.")
]
AllowCommands = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-commands",
        metavar="NAMES",
        help="Commands that agents may start, for MCP servers; * for all.",
    ),
]
AllowEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-env",
        metavar="NAMES",
        help="Variables that agents may name by ${env:NAME}; * for all.",
    ),
]
AllowHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-hosts",
        metavar="HOSTS",
        help="The only hosts that agents may call, with secrets too.",
    ),
]
AllowKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-kinds",
        metavar="NAMES",
        help="The only kinds of tools, besides functions, for agents.",
    ),
]
TaskQueue = Annotated[
    str, typer.Option("--task-queue", metavar="NAME", help="The queue that workers poll.")
]
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", metavar="NAME", help="The tenant of the run: workers serve tenants in turn."
    ),
]
TenantWeight = Annotated[
    float | None,
    typer.Option(
        "--tenant-weight",
        metavar="NUMBER",
        help="The tenant's share, against 1 of every other tenant.",
    ),
]
Priority = Annotated[
    int | None, typer.Option("--priority", help="1 is served first, 5 last; 3 without one.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=VALUE",
        help="An input; NAME=@FILE reads it from a file, NAME=@- from stdin.",
    ),
]
InputsJson = Annotated[
    Path | None,
    typer.Option(
        "--inputs-json", metavar="FILE", help="A file with a JSON object of inputs by name."
    ),
]
Deps = Annotated[
    str | None,
    typer.Option(
        "--deps",
        metavar="JSON",
        help="The deps of tools and other functions; @FILE reads a file, @- stdin.",
    ),
]
PromptRoot = Annotated[
    Path | None,
    typer.Option(
        "--prompt-root", metavar="DIR", help="The folder of the agents that are used as tools."
    ),
]
Mock = Annotated[
    bool,
    typer.Option(
        "--mock",
        help="Take models' answers from DEBUG_MOCK_RESPONSES, if it has some: perdure docs kaos.",
    ),
]
Watch = Annotated[
    list[Path] | None,
    typer.Option(
        "--watch", metavar="DIR", help="A folder whose files are watched; default: the current one."
    ),
]
Port = Annotated[
    int | None, typer.Option("--port", help="The server's port; default: 7233, or any free one.")
]
UiPort = Annotated[
    int | None, typer.Option("--ui-port", help="The UI's port; default: 8233, or any free one.")
]
MetricsAddress = Annotated[
    str | None,
    typer.Option(
        "--metrics-address",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus there; on 127.0.0.1 by default.",
    ),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(
        "--log-level",
        help=(
            f"The level of logs on stderr; default: {LEVEL_VARIABLE}, else info for services and "
            "error for others."
        ),
        callback=_into_environment(LEVEL_VARIABLE),
    ),
]
LogFormat = Annotated[
    Literal["text", "json"] | None,
    typer.Option(
        "--log-format",
        help=(
            f"Log lines as text, or as one JSON object each; default: {FORMAT_VARIABLE}, else text."
        ),
        callback=_into_environment(FORMAT_VARIABLE),
    ),
]


def endpoint(address: str | None) -> str | None:
    """Return the `HOST:PORT` that an option names; None for none."""
    return f"127.0.0.1:{address}" if address and address.isdecimal() else address
