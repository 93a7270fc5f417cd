"""What the user sees: the answer on stdout, everything else on stderr, colour only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Literal

import typer

from ..excerpt import one_line

Tone = Literal["plain", "faint", "good", "bad", "call", "strong"]

_STYLES: dict[Tone, dict[str, Any]] = {
    "plain": {},
    "faint": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "call": {"fg": "cyan"},
    "strong": {"bold": True},
}


def say(text: str, tone: Tone = "plain", *, end: str = "\n") -> None:
    """Write to stderr."""
    styled = typer.style(text, **_STYLES[tone]) if _is_coloured() else text
    print(styled, end=end, file=sys.stderr, flush=True)


def answer(value: Any) -> None:
    """Write a part of the command's result to stdout: text as it is, anything else as JSON."""
    print(value if isinstance(value, str) else to_json(value), flush=True)


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """The value as JSON; what JSON has no form for becomes its `str`."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def describe_call(name: str, arguments: Any) -> str:
    """`name(arguments)` on one short line; the arguments are JSON text or any value."""
    text = arguments if isinstance(arguments, str) else to_json(arguments, indent=None)
    return f"{name}({one_line(text)})"


def _is_coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
