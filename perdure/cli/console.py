"""Output for the user: the answer on stdout, everything else on stderr, colour only on a
terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

import click

from ..json_types import JsonObject, JsonView
from ..text import count_of, format_usd, one_line, visible, visible_json

if TYPE_CHECKING:
    from ..protocol.outcome import RunResult

Tone = Literal["plain", "faint", "good", "bad", "call", "strong"]

_STYLES: dict[Tone, JsonObject] = {
    "plain": {},
    "faint": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "call": {"fg": "cyan"},
    "strong": {"bold": True},
}


Form: TypeAlias = Callable[[str, Tone], str]
_in_another_form: Form | None = None
_answers: _Answers | None = None


def say_as(form: Form) -> None:
    """Format later messages with `form`, from a text and its tone, each on a new line; "" writes
    nothing.
    """
    global _in_another_form
    _in_another_form = form


def say(text: str, tone: Tone = "plain", *, end: str = "\n") -> None:
    """Write to stderr with control characters escaped, since much of the text comes from files or
    models.
    """
    if _in_another_form is not None:
        if line := _in_another_form(text, tone):
            print(
                f"{line}\n", end="", file=sys.stderr, flush=True
            )  # In one piece: other threads write there, too.
        return
    print(f"{styled(text, tone)}{end}", end="", file=sys.stderr, flush=True)


def styled(text: str, tone: Tone) -> str:
    """Return the text without control characters, and in its tone where stderr is a terminal."""
    return click.style(visible(text), **_STYLES[tone]) if _is_coloured() else visible(text)


def answer(value: Any, *, exact: bool = False) -> None:
    """Write a part of the command's result to stdout: text on a line, anything else as JSON.

    Control characters are escaped as by `say`. `exact` text, such as a run's answer, stays as it is
    unless stdout is a terminal.
    """
    stream = _answers.stream if _answers else sys.stdout
    text = value if isinstance(value, str) else to_json(value)
    print(text if exact and not stream.isatty() else visible(text), file=stream, flush=True)


def answers_beside_says() -> bool:
    """Return whether `answer` and `say` write to the same terminal."""
    return (_answers.stream if _answers else sys.stdout).isatty() and sys.stderr.isatty()


def keep_stdout_for_answers() -> None:
    """Reserve stdout for `answer` from now on; any other output goes to stderr.

    Call this before loading the user's code: its output, and that of its child processes, would mix
    with the answer.
    """
    global _answers
    if _answers is not None:
        return
    _answers = _Answers(sys.stdout)
    sys.stdout = sys.stderr


def give_stdout_back() -> None:
    """Undo `keep_stdout_for_answers`."""
    global _answers
    if _answers is not None:
        sys.stdout = _answers.give_back()
        _answers = None


class _Answers:
    """The destination of answers while `sys.stdout`, and the file descriptor of stdout, are
    redirected.
    """

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = self.stream = stdout
        with contextlib.suppress(
            OSError, ValueError
        ):  # a stream without a file descriptor, such as a test's
            if stdout.fileno() == 1:
                stdout.flush()
                self.stream = os.fdopen(
                    os.dup(1), "w", encoding=stdout.encoding, errors=stdout.errors
                )
                os.dup2(2, 1)

    def give_back(self) -> TextIO:
        if self.stream is not self._stdout:
            with contextlib.suppress(OSError, ValueError):
                self.stream.flush()
                os.dup2(self.stream.fileno(), 1)
                self.stream.close()
        return self._stdout


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Return the value as JSON without terminal control characters; values that JSON can't
    represent become their `str`.
    """
    return visible_json(json.dumps(value, ensure_ascii=False, indent=indent, default=str))


def describe_call(name: str, arguments: Any, limit: int = 100) -> str:
    """Return `name(arguments)` on one short line; the arguments are JSON text or any value."""
    text = arguments if isinstance(arguments, str) else to_json(arguments, indent=None)
    return f"{name}({one_line(text, limit)})"


def describe_seconds(seconds: float) -> str:
    """Return a duration for people to read, such as `0.4 s`, `12 s`, `3 min 4 s`, `2 h 5 min` and
    `3 d 4 h`.
    """
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for (unit, size), (smaller, part) in pairwise(units):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def describe_usage(usage: JsonView) -> str:
    """Return `1,240 tokens in, 56 out` for a `Usage` as JSON; with cached tokens, `1,240 tokens in
    (91 % cached), 56 out`.

    An estimate for lost attempts is marked as such.
    """
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    lost = usage.get("lost_tokens")
    estimated = f" (of these about {lost:,} in attempts that were lost)" if lost else ""
    return f"{read:,} tokens in{cached_text(usage)}, {written:,} out{estimated}"


def cached_text(usage: JsonView) -> str:
    """Return the share of cached input tokens, such as ` (91 % cached)`; "" without any."""
    cached, read = usage.get("cached_input_tokens") or 0, usage.get("input_tokens") or 0
    return f" ({min(100, 100 * cached // read)} % cached)" if cached and read else ""


def decision_text(data: JsonView) -> str:
    """Return a person's decision, such as `denied by Ann: too expensive`."""
    word = "denied"
    if data.get("approved"):
        word = "approved" if data.get("answer") is None else "answered"
    claimed = "" if data.get("vouched") else " (claimed)"
    by = f" by {data['by']}{claimed}" if data.get("by") else ""
    arguments = data.get("arguments")
    edited = "" if arguments is None else f" with {to_json(arguments, indent=None)}"
    reason = f": {one_line(data['reason'])}" if data.get("reason") else ""
    return f"{word}{by}{edited}{reason}"


def describe_spending(result: RunResult) -> str:
    """Return a run's consumption, such as `3 model calls, 12,400 tokens, $0.031`."""
    calls = count_of(result.iterations, "model call")
    tokens = count_of(result.usage.total_tokens, "token")
    cost = format_usd(result.cost_usd, unpriced=result.unpriced_calls)
    return ", ".join(filter(None, [calls, tokens, cost]))


def _is_coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines; [] when there are none."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def short_call(name: str, arguments: Any, limit: int = 200) -> str:
    """Return `name(city="Paris", days=2)` on one line, cut at the end; the arguments are JSON text
    or any value.
    """
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return f"{one_line(name)}({one_line(arguments, limit)})"
    if not isinstance(arguments, dict):
        return f"{one_line(name)}({one_line(to_json(arguments, indent=None), limit)})"
    pairs = ", ".join(f"{key}={to_json(value, indent=None)}" for key, value in arguments.items())
    return f"{one_line(name)}({one_line(pairs, limit)})"
