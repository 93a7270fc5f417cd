"""The commands by which a person decides about a call that waits, as texts show them: ready to paste."""

from __future__ import annotations

from .shell import command_line, shell_word

ANSWER = "TEXT"
"""What stands for the answer in a command that is shown. `perdure answer` refuses it."""


def decision_command(run_id: str, call_id: str, digest: str | None, *, kind: str = "approval") -> str:
    """What approves a call of a run or, where `kind` is `question`, answers it.

    With the digest, it counts for nothing else that may wait under the same id later. "" and None stand for none.
    """
    if kind == "question":
        return _command("answer", run_id, call_id, digest, ANSWER)
    return _command("approve", run_id, call_id, digest)


def denial_command(run_id: str, call_id: str, digest: str | None) -> str:
    """What denies a call, or leaves a question unanswered; without a reason, which nobody but the person knows."""
    return _command("deny", run_id, call_id, digest)


def _command(verb: str, run_id: str, call_id: str, digest: str | None, *rest: str) -> str:
    return command_line(verb, run_id, call_id, *rest, more=f"--digest {shell_word(digest)}" if digest else "")
