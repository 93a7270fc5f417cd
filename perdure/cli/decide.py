"""`perdure approve`, `deny` and `answer`: decide about a tool call that waits for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from ..commands import ANSWER, command_line
from ..json_types import JsonObject
from ..text import one_line
from . import console
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
        str | None, typer.Option("--arguments", metavar="JSON", help="Arguments to use instead of the model's.")
    ] = None,
    digest: options.Digest = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a waiting tool call be executed.

    With --digest, as every command that perdure shows has it, nothing else is approved that waits under the same id by
    now. Without it, what waits at this moment is approved, and shown.
    """
    arguments = None if changed is None else read_arguments(changed, "--arguments")
    execute(_approve(id, call, arguments, digest, by, as_json))


async def _approve(
    run_id: str,
    call_id: str | None,
    changed: JsonObject | None,
    digest: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    async with open_run(run_id) as (_, handle):
        run_id = handle.id
        call = await call_to_decide(handle, call_id, digest)
        await call.run.approve(call.id, arguments=changed, digest=call.digest, by=by or this_user())
        shown = call.shown if changed is None else f"{call.shown}, with {to_json(changed, indent=None)} instead,"
        say(f"Approved {shown} of run {call.run.id}. Watch it: {command_line('watch', run_id)}")
        if as_json:
            print_answer(
                {"id": call.run.id, "action": "approve", "callId": call.id, "digest": call.digest, "arguments": changed}
            )


def deny(
    id: options.OpenRunId,
    call: options.CallId = None,
    reason: Annotated[str, typer.Option(help="Why; the model reads it.")] = DENIED,
    digest: options.Digest = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Refuse a waiting tool call.

    The model is told why, and the run goes on.
    """
    execute(_deny(id, call, reason, digest, by, as_json))


async def _deny(
    run_id: str, call_id: str | None, reason: str, digest: str | None, by: str | None, as_json: bool
) -> None:
    async with open_run(run_id) as (_, handle):
        run_id = handle.id
        call = await call_to_decide(handle, call_id, digest)
        await call.run.deny(call.id, reason, digest=call.digest, by=by or this_user())
        say(f"Denied {call.shown} of run {call.run.id}. Watch it: {command_line('watch', run_id)}")
        if as_json:
            print_answer({**call.report("deny"), "reason": reason})


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
