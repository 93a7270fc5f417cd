"""`perdure answer`: answer a question that a run has put to a person."""

from __future__ import annotations

from typing import Annotated

import typer

from ..decision_commands import ANSWER
from ..excerpt import one_line
from ..shell import command_line
from . import console, options
from .approvals import call_to_decide, this_user
from .console import say
from .problems import UsageProblem
from .running import execute
from .session import open_run


def answer(
    id: options.OpenRunId,
    call: Annotated[str, typer.Argument(metavar="CALL_ID", help="The id of the question, as status shows it.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    digest: options.Digest = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer a question of a run's model.

    `perdure deny` leaves it unanswered, with a reason.
    """
    execute(_answer(id, call, text, digest, by, as_json))


async def _answer(run_id: str, call_id: str, text: str, digest: str | None, by: str | None, as_json: bool) -> None:
    if text == ANSWER:
        raise UsageProblem(f"{ANSWER} stands for the answer, expected the answer itself in its place, in quotes")
    async with open_run(run_id) as (_, handle):
        run_id = handle.id
        call = await call_to_decide(handle, call_id, digest)
        await call.run.answer(call.id, text, digest=call.digest, by=by or this_user())
        watch = command_line("watch", run_id)
        say(f"Answered {one_line(text)!r} to {call.shown} of run {call.run.id}. Watch it: {watch}")
        if as_json:
            console.answer(
                {"id": call.run.id, "action": "answer", "callId": call.id, "digest": call.digest, "text": text}
            )
