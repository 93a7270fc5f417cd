"""Commands in messages, quoted for a shell and ready to paste, including those that decide about a
waiting call.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from .text import visible

if TYPE_CHECKING:
    from .tool_calls import PendingApproval


def command_line(name: str, *arguments: str, more: str = "") -> str:
    """`perdure NAME ARGUMENTS MORE`, with the arguments quoted, so that untrusted ones have no
    effect on the shell.

    `more` is written unquoted: options, and placeholders for the reader.
    """
    words = " ".join(map(shell_word, arguments))
    if any(argument.startswith("-") for argument in arguments):
        return " ".join(filter(None, ["perdure", name, more, "--", words]))
    return " ".join(filter(None, ["perdure", name, words, more]))


def shell_word(text: str) -> str:
    """Text as one word of a POSIX shell; with escapes, which bash and zsh know, for characters that
    act on a terminal.
    """
    shown = visible(text)
    if shown == text and "\n" not in text:
        return shlex.quote(text)
    escaped = (
        visible(text.replace("\\", "\\\\").replace("'", "\\'"))
        .replace("\n", "\\n")
        .replace("\t", "\\t")
    )
    return f"$'{escaped}'"


ANSWER = "TEXT"
"""The placeholder for the answer in a shown command. `perdure answer` refuses it."""


def decision_command(
    run_id: str, call_id: str, digest: str | None, *, kind: str = "approval"
) -> str:
    """Return the command that approves a call of a run or, if `kind` is `question`, answers it.

    With the digest, it does not apply to anything else that may wait under the same id later. ""
    and None mean none.
    """
    if kind == "question":
        return _command("answer", run_id, call_id, digest, ANSWER)
    return _command("approve", run_id, call_id, digest)


def ways_to_decide(
    run_id: str,
    call_id: str,
    digest: str | None,
    *,
    kind: str = "approval",
    needs_gateway: bool = False,
) -> tuple[str, ...]:
    """Return the ways to decide a call: the command that approves or answers it, and the one that
    denies it.

    If a gateway must identify the approvers, no command works: the request to a gateway is the only
    way.
    """
    if not needs_gateway:
        return decision_command(run_id, call_id, digest, kind=kind), denial_command(
            run_id, call_id, digest
        )
    verb = "answer" if kind == "question" else "approve"
    said = {"callId": call_id, "digest": digest, **({"text": ANSWER} if kind == "question" else {})}
    path = f"/perdure/runs/{visible(run_id)}/{verb}"
    return (f"only through a gateway: POST {path} {json.dumps(said)}, or /deny",)


def ways_to_settle(run_id: str, pending: PendingApproval) -> tuple[str, ...]:
    """Return the ways to decide a waiting call of a run, as `ways_to_decide` does."""
    may_only = pending.approvers is not None and pending.approvers.needs_vouch
    return ways_to_decide(
        run_id, pending.call_id, pending.digest, kind=pending.kind, needs_gateway=may_only
    )


def denial_command(run_id: str, call_id: str, digest: str | None) -> str:
    """Return the command that denies a call, or leaves a question unanswered; it has no reason,
    which only the person knows.
    """
    return _command("deny", run_id, call_id, digest)


def _command(verb: str, run_id: str, call_id: str, digest: str | None, *rest: str) -> str:
    return command_line(
        verb, run_id, call_id, *rest, more=f"--digest {shell_word(digest)}" if digest else ""
    )
