"""The commands by which a person decides about a call that waits, as texts show them: ready to paste."""

from __future__ import annotations

from .shell import command_line, shell_word


def decision_command(run_id: str, call_id: str, digest: str | None, *, kind: str = "approval") -> str:
    """What approves a call of a run or, where `kind` is `question`, answers it.

    With the digest, it counts for nothing else that may wait under the same id later. "" and None stand for none.
    """
    if kind == "question":
        return _command("answer", run_id, call_id, digest, "TEXT")
    return _command("approve", run_id, call_id, digest)


def denial_command(run_id: str, call_id: str, digest: str | None) -> str:
    """What denies a call, or leaves a question unanswered."""
    return _command("deny", run_id, call_id, digest, more="--reason …")


def _command(verb: str, run_id: str, call_id: str, digest: str | None, *rest: str, more: str = "") -> str:
    options = [f"--digest {shell_word(digest)}" if digest else "", more]
    return command_line(verb, run_id, call_id, *rest, more=" ".join(filter(None, options)))
