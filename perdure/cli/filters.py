"""The options with which commands find runs, and the errors for filters that the server refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer
from temporalio.service import RPCError, RPCStatusCode

from ..json_types import JsonObject
from .app import PlainCommand
from .completion import Filters, Status, query_problem, session_ids

CHOSEN = "perdure.filters"
"""The key of the options' values in a command's context."""
_PREFIX = "filter_"
"""The prefix of their parameters' names: a command may have other ones of the same names."""
FILTER_OPTIONS: JsonObject = {
    "status": (Status, {"help": "Only runs with this status."}),
    "agent": (str, {"metavar": "NAME", "help": "Only runs of this agent."}),
    "tenant": (str, {"metavar": "NAME", "help": "Only runs on behalf of this tenant."}),
    "task_queue": (str, {"metavar": "NAME", "help": "Only runs of this task queue."}),
    "session": (
        str,
        {"metavar": "ID", "help": "Only runs of this session.", "autocompletion": session_ids},
    ),
    "origin": (
        str,
        {"metavar": "ID", "help": "Only runs started by this: a run, or schedule:NAME."},
    ),
    "min_cost": (float, {"metavar": "USD", "help": "Only runs that cost this much."}),
    "since": (
        str,
        {
            "metavar": "AGE",
            "help": "Only runs that were started since: 30s, 15min, 2h, 3d, a time.",
        },
    ),
    "older_than": (
        str,
        {"metavar": "AGE", "help": "Only runs that were started before: 2h, 3d, a time."},
    ),
    "closed_since": (
        str,
        {"metavar": "AGE", "help": "Only runs that have ended since: 2h, 3d, a time."},
    ),
    "closed_before": (
        str,
        {"metavar": "AGE", "help": "Only runs that had ended before: 2h, 3d, a time."},
    ),
    "where": (str, {"metavar": "QUERY", "help": "Only runs that this Temporal list filter finds."}),
}
"""Field of `Filters` → type, and the option's help."""
MANY_OPTIONS: JsonObject = {
    "all": (bool, {"help": "All runs that the command can do it with."}),
    "at_most": (
        int,
        {"metavar": "N", "min": 1, "help": "Stop if the filters find more than this many."},
    ),
    "dry_run": (bool, {"help": "Print the ids of the runs that would be meant, and do nothing."}),
}


def _keep(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> None:
    if value not in (None, False) and parameter.name:
        context.meta.setdefault(CHOSEN, {})[parameter.name.removeprefix(_PREFIX)] = value


@cache
def _parameters(*, is_list: bool) -> Sequence[Any]:
    """Return the typer parameters of a function with a parameter for each option."""

    def chosen(**values: Any) -> None: ...

    parameters = [
        Parameter(
            f"{_PREFIX}{name}",
            Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[annotation, option],
        )
        for name, (type_, about) in {**FILTER_OPTIONS, **({} if is_list else MANY_OPTIONS)}.items()
        for option in [
            typer.Option(
                f"--{name.replace('_', '-')}",
                expose_value=False,
                callback=_keep,
                show_default=False,
                **about,
            )
        ]
        for annotation, default in [(bool, False) if type_ is bool else (type_ | None, None)]
    ]
    chosen.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    chosen.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(chosen)
    return typer.main.get_command(app).params


class ListCommand(PlainCommand):
    """A command with the options that find runs."""

    is_list = True

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's own parameters, then those that find runs."""
        *own, help = super().get_params(ctx)
        return [*own, *_parameters(is_list=self.is_list), help]


class ManyCommand(ListCommand):
    """A command for one run or for many; its function takes the `typer.Context`."""

    is_list = False


def chosen_filters(context: typer.Context) -> Filters:
    """Return the filters of the command line."""
    chosen = context.meta.get(CHOSEN, {})
    return Filters(
        **{each.name: chosen[each.name] for each in fields(Filters) if each.name in chosen}
    )


@contextmanager
def query_explained(filters: Filters) -> Iterator[None]:
    """Raises the error with the reason for a query that the server refuses."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        raise query_problem(error.message, filters) from error
