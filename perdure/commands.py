"""Commands in messages, quoted for a shell, and those that decide about a call that waits: ready to paste."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from .text import visible

if TYPE_CHECKING:
    from .tool_calls import PendingApproval


def command_line(name: str, *arguments: str, more: str = "") -> str:
    """`perdure NAME ARGUMENTS MORE`, with the arguments, whoever has written them, as words that do nothing else.

    `more` is written as it is: options, and what the reader puts something in the place of.
    """
    words = " ".join(map(shell_word, arguments))
    if any(argument.startswith("-") for argument in arguments):
        return " ".join(filter(None, ["perdure", name, more, "--", words]))
    return " ".join(filter(None, ["perdure", name, words, more]))


def shell_word(text: str) -> str:
    """Text as one word of a POSIX shell; with escapes, which bash and zsh know, for what acts on a terminal."""
    shown = visible(text)
    if shown == text and "\n" not in text:
        return shlex.quote(text)
    escaped = visible(text.replace("\\", "\\\\").replace("'", "\\'")).replace("\n", "\\n").replace("\t", "\\t")
    return f"$'{escaped}'"


ANSWER = "TEXT"
"""What stands for the answer in a command that is shown. `perdure answer` refuses it."""


def decision_command(run_id: str, call_id: str, digest: str | None, *, kind: str = "approval") -> str:
    """Return what approves a call of a run or, where `kind` is `question`, answers it.

    With the digest, it counts for nothing else that may wait under the same id later. "" and None stand for none.
    """
    if kind == "question":
        return _command("answer", run_id, call_id, digest, ANSWER)
    return _command("approve", run_id, call_id, digest)


def ways_to_decide(
    run_id: str, call_id: str, digest: str | None, *, kind: str = "approval", needs_gateway: bool = False
) -> tuple[str, ...]:
    """Return how to decide about a call: the command that approves or answers it, and the one that denies it.

    Where only those may decide for whom a gateway vouches, no command does: what to send to a gateway is the only way.
    """
    if not needs_gateway:
        return decision_command(run_id, call_id, digest, kind=kind), denial_command(run_id, call_id, digest)
    verb = "answer" if kind == "question" else "approve"
    said = {"callId": call_id, "digest": digest, **({"text": ANSWER} if kind == "question" else {})}
    path = f"/perdure/runs/{visible(run_id)}/{verb}"
    return (f"only through a gateway: POST {path} {json.dumps(said)}, or /deny",)


def ways_to_settle(run_id: str, pending: PendingApproval) -> tuple[str, ...]:
    """Return how to decide about what waits in a run, as `ways_to_decide` does."""
    may_only = pending.deciders is not None and pending.deciders.needs_vouch
    return ways_to_decide(run_id, pending.call_id, pending.digest, kind=pending.kind, needs_gateway=may_only)


def denial_command(run_id: str, call_id: str, digest: str | None) -> str:
    """Return what denies a call, or leaves a question unanswered; without a reason, which nobody but the person
    knows.
    """
    return _command("deny", run_id, call_id, digest)


def _command(verb: str, run_id: str, call_id: str, digest: str | None, *rest: str) -> str:
    return command_line(verb, run_id, call_id, *rest, more=f"--digest {shell_word(digest)}" if digest else "")
