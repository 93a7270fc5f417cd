"""Commands in messages, quoted for a shell, and those that decide about a call that waits: ready to paste."""

from __future__ import annotations

import shlex

from .text import visible


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


def denial_command(run_id: str, call_id: str, digest: str | None) -> str:
    """Return what denies a call, or leaves a question unanswered; without a reason, which nobody but the person
    knows.
    """
    return _command("deny", run_id, call_id, digest)


def _command(verb: str, run_id: str, call_id: str, digest: str | None, *rest: str) -> str:
    return command_line(verb, run_id, call_id, *rest, more=f"--digest {shell_word(digest)}" if digest else "")
