"""`perdure approve`, `deny` and `answer`: decide about a tool call that waits for a person."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from ..commands import ANSWER, command_line
from ..json_types import JsonView
from ..text import one_line
from . import shared_options as options
from .ask_person import DENIED, call_to_decide, read_arguments, this_user
from .command import execute
from .console import answer as print_answer
from .console import say, to_json
from .problems import UsageProblem
from .recorded_run import open_run


def approve(
    id: options.OpenRunId,
    call: options.CallId = None,
    changed: Annotated[
        str | None,
        typer.Option(
            "--arguments", metavar="JSON", help="Arguments to use instead of the model's."
        ),
    ] = None,
    digest: options.Digest = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Approve a waiting tool call.

    With --digest, which every command that perdure prints has, the approval counts for that call
    only, not for a later one of the same id. Without it, the command shows and approves the call
    that waits now.
    """
    arguments = None if changed is None else read_arguments(changed, "--arguments")
    instead = "" if changed is None else f", with {to_json(arguments, indent=None)} instead,"
    execute(
        _decide(
            "approve",
            ("Approved", instead),
            id,
            call,
            digest,
            by,
            as_json,
            {"arguments": arguments},
        )
    )


def deny(
    id: options.OpenRunId,
    call: options.CallId = None,
    reason: Annotated[str, typer.Option(help="Why; the model reads it.")] = DENIED,
    digest: options.Digest = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Deny a waiting tool call.

    The model receives the reason, and the run continues.
    """
    execute(_decide("deny", ("Denied", ""), id, call, digest, by, as_json, {"reason": reason}))


def answer(
    id: options.OpenRunId,
    call: Annotated[
        str, typer.Argument(metavar="CALL_ID", help="The id of the question, as status shows it.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    digest: options.Digest = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer a question of a run's model.

    `perdure deny` declines the question, with a reason.
    """
    _require_own(text)
    said = (f"Answered {one_line(text)!r} to", "")
    execute(_decide("answer", said, id, call, digest, by, as_json, {"text": text}))


def _require_own(text: str) -> None:
    """Raises `UsageProblem` for the placeholder that perdure prints in place of an answer."""
    if text == ANSWER:
        raise UsageProblem(
            f"{ANSWER} stands for the answer, expected the answer itself in its place, in quotes"
        )


async def _decide(
    action: Literal["approve", "deny", "answer"],
    said: tuple[str, str],
    run_id: str,
    call_id: str | None,
    digest: str | None,
    by: str | None,
    as_json: bool,
    decision: JsonView,
) -> None:
    """Send the decision through `RunHandle` and report it: `said` has the words before and after
    the call.
    """
    async with open_run(run_id) as (_, handle):
        call = await call_to_decide(handle, call_id, digest)
        take: Any = getattr(call.run, action)
        await take(call.id, **decision, digest=call.digest, by=by or this_user())
        say(
            f"{said[0]} {call.shown}{said[1]} of run {call.run.id}. Watch it: "
            f"{command_line('watch', handle.id)}"
        )
        if as_json:
            report = {"id": call.run.id, "action": action, "callId": call.id, "digest": call.digest}
            print_answer({**report, **decision})
