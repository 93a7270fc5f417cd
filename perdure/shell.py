"""Commands that a person copies from a message into a shell."""

from __future__ import annotations

import shlex

from .excerpt import visible


def command_line(name: str, *arguments: str, more: str = "") -> str:
    """`perdure NAME ARGUMENTS MORE`, with the arguments, whoever has written them, as words that do nothing else.

    `more` is written as it is: options, and what the reader puts something in the place of.
    """
    words = " ".join(map(shell_word, arguments))
    if any(argument.startswith("-") for argument in arguments):
        return " ".join(filter(None, ["perdure", name, more, "--", words]))
    return " ".join(filter(None, ["perdure", name, words, more]))


def shell_word(text: str) -> str:
    """The text as one word of a POSIX shell; with escapes, which bash and zsh know, for what acts on a terminal."""
    shown = visible(text)
    if shown == text and "\n" not in text:
        return shlex.quote(text)
    escaped = visible(text.replace("\\", "\\\\").replace("'", "\\'")).replace("\n", "\\n").replace("\t", "\\t")
    return f"$'{escaped}'"
