"""The options that commands share; those that are fields of `RunOptions` are options by themselves."""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from ..options import RunOptions
from .app import PlainCommand
from .completion import open_run_ids, run_ids, session_ids
from .console import FORMAT_VARIABLE, LEVEL_VARIABLE
from .problems import UsageProblem

BY_CODE = ("guardrails", "compactor")
"""Fields that follow from what `--guardrails` and `--compactor` load."""
SHORT_FORMS = {"parallel_tool_calls": "--parallel-tools", "max_total_tokens": "--max-tokens", "webhooks": "--webhook"}
DEFAULT_QUEUE = "perdure"
"""The task queue of runs and workers that name none."""
_CHOSEN = "perdure.run_options"


class CommandWithRunOptions(PlainCommand):
    """Command that has, beside its own options, one for each field of `RunOptions`.

    The model is read when the command's parameters are: `perdure --help` does without it.
    """

    fields: Collection[str] = RunOptions.model_fields

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's own parameters, then the fields'."""
        *own, help = super().get_params(ctx)
        return [*own, *(each for each in _parameters() if each.name in self.fields), help]


def chosen_fields(context: typer.Context) -> dict[str, Any]:
    """Return the fields that the command line gives, by name, as text or as values."""
    return dict(context.meta.get(_CHOSEN, {}))


def run_options(fields: Mapping[str, Any], *, base: RunOptions | None = None) -> RunOptions:
    """Return the options with these fields; the others are those of `base`, or the defaults. Raises `UsageProblem`."""
    before = base.model_dump(exclude_unset=True) if base else {}
    try:
        return RunOptions.model_validate({**before, **fields})
    except ValidationError as error:
        raise UsageProblem("; ".join(_problem_text(each) for each in error.errors())) from error


def option_name(field: str) -> str:
    """Return the option for a field: `max_iterations` → `--max-iterations`."""
    return SHORT_FORMS.get(field) or f"--{field.replace('_', '-')}"


def _problem_text(error: Mapping[str, Any]) -> str:
    field = str(error["loc"][0]) if error["loc"] else ""
    return f"{option_name(field)} {error['input']}: {error['msg'][:1].lower()}{error['msg'][1:]}"


@cache
def _parameters() -> Sequence[Any]:
    """Return the typer parameters of a function with a parameter for each field."""
    texts = docstrings(RunOptions)

    def fields(**values: Any) -> None: ...

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name, field, text))
        for name, field in RunOptions.model_fields.items()
        if name not in BY_CODE
        for text in [texts.get(name, "")]
    ]
    fields.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    fields.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(fields)
    return typer.main.get_command(app).params


def docstrings(model: type) -> dict[str, str]:
    """Return the text under each field of a class, in one line and without the specification's section numbers."""
    [definition] = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            said = ast.literal_eval(text.value)
            found[field.target.id] = _for_a_terminal(" ".join(said.split()))
    return found


def _for_a_terminal(text: str) -> str:
    """Return the text with options in the place of fields, and without section numbers."""
    text = re.sub(r'`(\w+)(?:="(\w+)")?`', lambda it: " ".join([option_name(it[1]), *filter(None, [it[2]])]), text)
    return re.sub(r"\bNone\b", "no value", re.sub(r" \(§[\d.]+\)", "", text))


def _annotation(name: str, field: FieldInfo, text: str) -> Any:
    plain: Any = field.annotation
    type_: Any = plain if _is_known(plain) else str
    default = "" if field.default in (None, False) else f" [default: {field.default}]"
    names = [option_name(name)] + ([f"--{name.replace('_', '-')}"] if name in SHORT_FORMS else [])
    declared = ["/".join([names[0], f"--no-{names[0][2:]}"]), *names[1:]] if plain is bool else names
    option = typer.Option(
        *declared, help=text + default, show_default=False, expose_value=False, callback=_keep, rich_help_panel=None
    )
    return Annotated[type_ if _accepts_none(type_) else type_ | None, option]


def _is_known(type_: Any) -> bool:
    """Return whether the command line has this type; a value of another one is read from its text by the model."""
    parts = [part for part in get_args(type_) if part is not type(None)] if _accepts_none(type_) else [type_]
    return all(part in (int, float, bool, str) or get_origin(part) is Literal for part in parts) and len(parts) == 1


def _accepts_none(type_: Any) -> bool:
    return get_origin(type_) in (Union, UnionType) and type(None) in get_args(type_)


def _keep(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> None:
    if value is not None and parameter.name:
        context.meta.setdefault(_CHOSEN, {})[parameter.name] = value


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
RunIdOrFilters = Annotated[str | None, typer.Argument(metavar="ID", help=_ONE_OF_MANY, autocompletion=run_ids)]
OpenRunIds = Annotated[list[str] | None, typer.Argument(metavar="ID", help=_ONE_OF_MANY, autocompletion=open_run_ids)]
OpenRunId = Annotated[str, typer.Argument(metavar="ID", help=_RUN_ID, autocompletion=open_run_ids)]
SessionId = Annotated[
    str | None,
    typer.Option("--session", metavar="NAME", help="The session; default: a new one.", autocompletion=session_ids),
]
Scripted = Annotated[
    str | None,
    typer.Option(metavar="SCRIPT", help="A scripted model instead of the agent's: file.json or file.py:function."),
]
CallId = Annotated[
    str | None, typer.Argument(metavar="[CALL]", help="The id of the tool call; default: the one that waits.")
]
Digest = Annotated[
    str | None,
    typer.Option(metavar="DIGEST", help="Decide only about the call of this digest; default: what waits now."),
]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides; default: this system's user.")]
AgentFile = Annotated[Path, typer.Argument(metavar="AGENT.prompty", help="The agent's file.")]
OtherModel = Annotated[
    str | None,
    typer.Option("--model", metavar="ID", help="Another model: its id, or PROVIDER/ID for another provider."),
]
OtherAgent = Annotated[
    Path | None,
    typer.Option("--agent", metavar="AGENT.prompty", help="A file whose agent takes the place of the recorded."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Write nothing but errors to stderr.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tools", metavar="MODULE:NAMES", help="Tools: module:a,b or file.py:a,b; a module alone: its @tools."
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
        help="A function that summarises messages, registered under NAME, or a .prompty file that does, under its own.",
    ),
]
Credentials = Annotated[
    str | None,
    typer.Option(
        "--credentials",
        metavar="MODULE:NAME",
        help="What has the secrets of ${credential:ID}: a mapping, or a function from an id to its secret.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Go on without being asked about code, commands and variables of a recorded run."),
]
YesToAll = Annotated[bool, typer.Option("--yes", "-y", help="Do it with all of them without being asked.")]
AllowCommands = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-commands", metavar="NAMES", help="Commands that agents may start, for MCP servers; * for all."
    ),
]
AllowEnv = Annotated[
    list[str] | None,
    typer.Option("--allow-env", metavar="NAMES", help="Variables that agents may name by ${env:NAME}; * for all."),
]
AllowHosts = Annotated[
    list[str] | None,
    typer.Option("--allow-hosts", metavar="HOSTS", help="The only hosts that agents may call, with secrets too."),
]
AllowKinds = Annotated[
    list[str] | None,
    typer.Option("--allow-kinds", metavar="NAMES", help="The only kinds of tools, besides functions, for agents."),
]
TaskQueue = Annotated[str, typer.Option("--task-queue", metavar="NAME", help="The queue that workers poll.")]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="On whose behalf the run is: workers serve tenants in turn."),
]
TenantWeight = Annotated[
    float | None,
    typer.Option("--tenant-weight", metavar="NUMBER", help="The tenant's share, against 1 of every other tenant."),
]
Priority = Annotated[int | None, typer.Option("--priority", help="1 is served first, 5 last; 3 without one.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input", "-i", metavar="NAME=VALUE", help="An input; NAME=@FILE reads it from a file, NAME=@- from stdin."
    ),
]
InputsJson = Annotated[
    Path | None, typer.Option("--inputs-json", metavar="FILE", help="A file with a JSON object of inputs by name.")
]
PromptRoot = Annotated[
    Path | None, typer.Option("--prompt-root", metavar="DIR", help="The folder of the agents that are used as tools.")
]
Mock = Annotated[
    bool,
    typer.Option("--mock", help="Take models' answers from DEBUG_MOCK_RESPONSES, if it has some: perdure docs kaos."),
]
Watch = Annotated[
    list[Path] | None,
    typer.Option("--watch", metavar="DIR", help="A folder whose files are watched; default: the current one."),
]
Port = Annotated[int | None, typer.Option("--port", help="The server's port; default: 7233, or any free one.")]
UiPort = Annotated[int | None, typer.Option("--ui-port", help="The UI's port; default: 8233, or any free one.")]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=1, max=65535, help="Serve metrics for Prometheus on this port of 127.0.0.1."),
]
MetricsAddress = Annotated[
    str | None, typer.Option("--metrics-address", metavar="HOST:PORT", help="The same on another address.")
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(
        "--log-level",
        help=f"What is logged to stderr; default: {LEVEL_VARIABLE}, else info for services and error for others.",
        callback=_into_environment(LEVEL_VARIABLE),
    ),
]
LogFormat = Annotated[
    Literal["text", "json"] | None,
    typer.Option(
        "--log-format",
        help=f"Log lines as text, or as one JSON object each; default: {FORMAT_VARIABLE}, else text.",
        callback=_into_environment(FORMAT_VARIABLE),
    ),
]


def endpoint(port: int | None, address: str | None, of: Literal["metrics", "health"]) -> str | None:
    """Return the `HOST:PORT` that the options name; None for none. Raises `typer.BadParameter` for both options."""
    if port is not None and address is not None:
        text = f"excludes --{of}-port, which names a port of 127.0.0.1"
        raise typer.BadParameter(text, param_hint=f"--{of}-address")
    return f"127.0.0.1:{port}" if port is not None else address
