"""`perdure approve`, `deny`, `answer` and `complete`: decide about a waiting tool call, or complete
it.
"""

from __future__ import annotations

import sys
from typing import Any

from ..client import complete_call
from ..commands import ANSWER, command_line
from ..json_types import JsonObject
from ..protocol.later import read_token
from ..text import one_line
from .ask_person import call_to_decide, read_arguments, this_user
from .console import answer as print_answer
from .console import say, to_json
from .given import Given
from .problems import UsageProblem
from .recorded_run import open_run
from .server_connection import connect_to_server


async def approve(given: Given) -> None:
    """Approve a call."""
    arguments, instead = None, ""
    if given.arguments is not None:
        arguments = read_arguments(given.arguments, "--arguments")
        instead = f", with {to_json(arguments, indent=None)} instead,"
    await _decide(given, "Approved", {"arguments": arguments}, instead)


async def deny(given: Given) -> None:
    """Deny a call."""
    await _decide(given, "Denied", {"reason": given.reason})


async def answer(given: Given) -> None:
    """Answer a question. Raises `UsageProblem` for the placeholder that perdure prints."""
    if given.text == ANSWER:
        raise UsageProblem(f"{ANSWER} is a placeholder, expected the answer itself, in quotes")
    await _decide(given, f"Answered {one_line(given.text)!r} to", {"text": given.text})


async def _decide(given: Given, done: str, decision: JsonObject, instead: str = "") -> None:
    """Send the decision through the method of `RunHandle` with the command's name."""
    async with open_run(given.id) as (_, handle):
        call = await call_to_decide(handle, given.call, given.digest)
        take: Any = getattr(call.run, given.command)
        await take(call.id, **decision, digest=call.digest, by=given.by or this_user())
        say(
            f"{done} {call.shown}{instead} of run {call.run.id}. Watch it: "
            f"{command_line('watch', handle.id)}"
        )
        if given.as_json:
            about = {"action": given.command, "callId": call.id, "digest": call.digest}
            print_answer({"id": call.run.id, **about, **decision})


async def complete(given: Given) -> None:
    """Complete a call that waits for another system. Raises `UsageProblem` unless there is either a
    result or an error.
    """
    if (given.result is None) == (given.error is None):
        raise UsageProblem(
            "expected either RESULT or --error TEXT: a call is finished with one of them"
        )
    result = sys.stdin.read() if given.result == "-" else given.result
    async with connect_to_server() as server:
        by = given.by or this_user()
        await complete_call(server.client, given.token, result, error=given.error, by=by)
        run_id = read_token(given.token).run_id
        say(f"The call of run {run_id} is finished")
        if given.as_json:
            print_answer({"id": run_id, "action": "complete"})
