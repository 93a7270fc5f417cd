"""`perdure complete`: completes a tool call that waits for another system."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..client import complete_call
from ..protocol.later import read_token
from . import shared_options as options
from .ask_person import this_user
from .command import execute
from .console import answer, say
from .problems import UsageProblem
from .server_connection import connect_to_server

STDIN = "-"


def complete(
    token: Annotated[
        str,
        typer.Argument(
            metavar="TOKEN", help="The token that context.later() returned to the tool."
        ),
    ],
    result: Annotated[
        str | None,
        typer.Argument(
            metavar="[RESULT]", help="The result, as the model reads it; - reads it from stdin."
        ),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The call failed, for this reason; the model reads it."),
    ] = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Complete a tool call that waits for another system.

    The tool has passed the token on (perdure docs later). A call completes once: the same again
    changes nothing.
    """
    execute(_complete(token, _result_to_send(result, error), error, by, as_json))


def _result_to_send(result: str | None, error: str | None) -> str | None:
    """Return the result, from stdin if need be. Raises `UsageProblem` unless there is either a
    result or an error.
    """
    if (result is None) == (error is None):
        raise UsageProblem(
            "expected either RESULT or --error TEXT: a call is finished with one of them"
        )
    return sys.stdin.read() if result == STDIN else result


async def _complete(
    token: str, result: str | None, error: str | None, by: str | None, as_json: bool
) -> None:
    async with connect_to_server() as server:
        await complete_call(server.client, token, result, error=error, by=by or this_user())
        run_id = read_token(token).run_id
        say(f"The call of run {run_id} is finished")
        if as_json:
            answer({"id": run_id, "action": "complete"})
