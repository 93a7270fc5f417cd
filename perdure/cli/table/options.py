"""Commands and their parameters as plain data, so that help needs no command's module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

DEFAULT_QUEUE = "perdure"
"""The task queue of runs and workers that name none."""
LEVEL_VARIABLE = "PERDURE_LOG_LEVEL"
FORMAT_VARIABLE = "PERDURE_LOG_FORMAT"


class Option(NamedTuple):
    """An option of a command."""

    help: str
    metavar: str | None = None
    """The placeholder of its value; None for a flag, and for a choice of words."""
    names: str = ""
    """Its names, separated by spaces; by default that of its parameter."""
    type: Any = str
    """The type of its value; a tuple has the words to choose from."""
    default: Any = None
    least: float | None = None
    """The least number."""
    many: bool = False
    """Whether it may be given several times."""
    sets: str = ""
    """The variable of this process's environment that gets its value."""
    variable: str | None = None
    """The environment variable that gives its default."""
    ids: str = ""
    """The ids that a shell completes: `runs`, `open runs` or `sessions`."""
    hidden: bool = False
    title: str = ""
    """The heading above it in the help; by default the one of its name."""
    may_change: bool = False
    """Whether a run option may change when a held run goes on."""


class Argument(NamedTuple):
    """A positional argument of a command."""

    help: str
    metavar: str
    required: bool = True
    many: bool = False
    type: Any = str
    ids: str = ""


Parameters = dict[str, Option | Argument]


class Command(NamedTuple):
    """A command. Its function takes a `Given`; a coroutine function returns the exit code."""

    function: str
    """Its module in this room, and its name: `module:name`."""
    help: str
    """One sentence."""
    parameters: Parameters = {}
    more: str = ""
    """Further paragraphs of its help."""
    run_options: bool | str = False
    """Whether it has an option for each field of `RunOptions`; `held` for those that `perdure
    go-on` may change."""
    reads_payloads: bool = True
    commands: Mapping[str, Command] = {}
    """Its subcommands, in the place of a function."""


_RUN_ID = "The run's id, as `perdure run` and `perdure ls` print it."
SHARED: Parameters = {
    "run_id": Argument(_RUN_ID, "ID", ids="runs"),
    "open_id": Argument(_RUN_ID, "ID", ids="open runs"),
    "open_ids": Argument(
        f"{_RUN_ID} Without one, the filters select the runs.",
        "[ID]...",
        False,
        True,
        ids="open runs",
    ),
    "agent_file": Argument("The agent's file.", "AGENT.prompty", type="path"),
    "call": Argument(
        "The id of the tool call; default: the one that waits.", "[CALL]", required=False
    ),
    "session": Option("The session; default: a new one.", "NAME", ids="sessions"),
    "scripted": Option(
        "A scripted model instead of the agent's: file.json or file.py:function.", "SCRIPT"
    ),
    "digest": Option(
        "Decide only about the call of this digest; default: the call that waits now.", "DIGEST"
    ),
    "by": Option("The name of the person; default: this system's user.", "NAME"),
    "model": Option("Another model: its id, or PROVIDER/ID for another provider.", "ID"),
    "provider": Option(
        "Another provider: anthropic, azure, foundry, openai; without the connection, and key, of "
        "the file.",
        "NAME",
    ),
    "endpoint": Option("Another address of the model; OpenAI's form: with /v1.", "URL"),
    "agent": Option(
        "A file whose agent takes the place of the recorded one.", "AGENT.prompty", type="path"
    ),
    "quiet": Option("Write nothing but errors to stderr.", names="--quiet -q"),
    "as_json": Option("Write JSON, for programs.", names="--json"),
    "tools": Option(
        "Tools: module:a,b or file.py:a,b; a module alone: its @tools.", "MODULE:NAMES", many=True
    ),
    "guardrails": Option("Guardrails, registered under NAME.", "MODULE:NAME", many=True),
    "compactor": Option(
        "A function that summarises messages, registered under NAME, or a .prompty file that does, "
        "under its own.",
        "MODULE:NAME|FILE",
        many=True,
    ),
    "credentials": Option(
        "The secrets of ${credential:ID}: a mapping, or a function from an id to its secret.",
        "MODULE:NAME",
    ),
    "yes": Option(
        "Go on without being asked about code, commands and variables of a recorded run.",
        names="--yes -y",
    ),
    "yes_to_all": Option("Do it with all of them without being asked.", names="--yes -y"),
    "task_queue": Option("The queue that workers poll.", "NAME", default=DEFAULT_QUEUE),
    "tenant": Option("The tenant of the run: workers serve tenants in turn.", "NAME"),
    "tenant_weight": Option(
        "The tenant's share, against 1 of every other tenant.", "NUMBER", type=float
    ),
    "priority": Option("1 is served first, 5 last; 3 without one.", "N", type=int),
    "inputs": Option(
        "An input; NAME=@FILE reads it from a file, NAME=@- from stdin.",
        "NAME=VALUE",
        "--input -i",
        many=True,
    ),
    "inputs_json": Option("A file with a JSON object of inputs by name.", "FILE", type="path"),
    "deps": Option("The deps of tools and other functions; @FILE reads a file, @- stdin.", "JSON"),
    "prompt_root": Option("The folder of the agents that are used as tools.", "DIR", type="path"),
    "mock": Option(
        "Take models' answers from DEBUG_MOCK_RESPONSES, if it has some: perdure docs kaos."
    ),
    "watch": Option(
        "A folder whose files are watched; default: the current one.", "DIR", type="path", many=True
    ),
    "port": Option("The server's port; default: 7233, or any free one.", "PORT", type=int),
    "ui_port": Option("The UI's port; default: 8233, or any free one.", "PORT", type=int),
    "metrics_address": Option(
        "Serve metrics for Prometheus there; on 127.0.0.1 by default.", "[HOST:]PORT"
    ),
    "log_level": Option(
        f"The level of logs on stderr; default: {LEVEL_VARIABLE}, else info for services and error "
        "for others.",
        type=("debug", "info", "warning", "error"),
        sets=LEVEL_VARIABLE,
    ),
    "log_format": Option(
        f"Log lines as text, or as one JSON object each; default: {FORMAT_VARIABLE}, else text.",
        type=("text", "json"),
        sets=FORMAT_VARIABLE,
    ),
    "ends_with_stdin": Option("End when stdin is closed.", hidden=True),
    "codec": Option(
        "A PayloadCodec of yours, which writes and reads payloads; default: PERDURE_CODEC.",
        "MODULE:NAME",
        sets="PERDURE_CODEC",
    ),
}
SERVER: Parameters = {
    "address": Option(
        "The Temporal server; default: TEMPORAL_ADDRESS.", "HOST:PORT", sets="TEMPORAL_ADDRESS"
    ),
    "namespace": Option(
        "The Temporal namespace; default: TEMPORAL_NAMESPACE.", "NAME", sets="TEMPORAL_NAMESPACE"
    ),
    "data_dir": Option(
        "The embedded server's data; default: PERDURE_HOME.", "DIR", sets="PERDURE_HOME"
    ),
}
"""Options of `perdure`. Each command takes them too, which its help does not repeat."""
STATUSES = (
    "running", "waiting", "held", "completed", "failed", "cancelled", "terminated", "timed-out",
)  # fmt: skip
FILTERS: Parameters = {
    "status": Option("Only runs with this status.", type=STATUSES),
    "agent": Option("Only runs of this agent.", "NAME"),
    "tenant": Option("Only runs on behalf of this tenant.", "NAME"),
    "task_queue": Option("Only runs of this task queue.", "NAME"),
    "session": Option("Only runs of this session.", "ID", ids="sessions"),
    "origin": Option("Only runs started by this: a run, or schedule:NAME.", "ID"),
    "min_cost": Option("Only runs that cost this much.", "USD", type=float),
    "since": Option("Only runs that were started since: 30s, 15min, 2h, 3d, a time.", "AGE"),
    "older_than": Option("Only runs that were started before: 2h, 3d, a time.", "AGE"),
    "closed_since": Option("Only runs that have ended since: 2h, 3d, a time.", "AGE"),
    "closed_before": Option("Only runs that had ended before: 2h, 3d, a time.", "AGE"),
    "where": Option("Only runs that this Temporal list filter finds.", "QUERY"),
}
MANY: Parameters = {
    **FILTERS,
    "all": Option("All runs that the command can do it with."),
    "at_most": Option("Stop if the filters find more than this many.", "N", type=int, least=1),
    "dry_run": Option("Print the ids of the selected runs, and do nothing."),
}
"""Options that select many runs."""


def shared(*names: str) -> Parameters:
    """Return the shared parameters of these names."""
    return {name: SHARED[name] for name in names}


CODE = shared("tools", "guardrails", "compactor", "credentials")
INPUTS = shared("inputs", "inputs_json", "deps")
LOG = shared("log_level", "log_format")
JSON = shared("as_json")
RUN_ID: Parameters = {"id": SHARED["run_id"]}
OPEN_ID: Parameters = {"id": SHARED["open_id"]}
OPEN_IDS: Parameters = {"id": SHARED["open_ids"]}
YES_TO_ALL: Parameters = {"yes": SHARED["yes_to_all"]}
