"""Prints the tree of a trace on a terminal, in colours; a line that is too long is cut, and never wraps."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from rich.text import Text

from ..trace.text import SpanRow, column_widths, rows
from .terminal import VisibleConsole

_STYLES = {"agent": "bold", "model": "cyan", "tool": "", "wait": "yellow", "retry": "magenta", "other": "dim"}


def print_tree(spans: Sequence[ReadableSpan]) -> None:
    """Print it on stdout, in colours where that is a terminal."""
    console = VisibleConsole(stderr=False)
    found = list(rows(spans))
    widths = column_widths(found)
    for row in found:
        console.print(_line(row, widths), no_wrap=True, overflow="ellipsis", crop=True)


def _line(row: SpanRow, widths: Sequence[int]) -> Text:
    name, *figures = row.columns
    shown = Text(row.guide, style="dim").append(row.name, style="red" if row.problem else _STYLES[row.kind])
    shown.append(" " * (widths[0] - len(name)))
    for text, width in zip(figures, widths[1:], strict=True):
        shown.append(f"  {text.rjust(width)}", style="dim")
    return shown.append(f"  {row.problem}" if row.problem else "", style="red")
