"""Reads what a docstring says of a function and of its parameters, in Google's, NumPy's or Sphinx's style."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple


class Described(NamedTuple):
    """What a docstring says."""

    summary: str | None
    """Its first paragraph, in one line."""
    parameters: dict[str, str]
    """By name, each in one line."""


def described(function: Callable[..., Any]) -> Described:
    """What the function's docstring says; never raises."""
    while isinstance(function, partial):
        function = function.func
    text = inspect.getdoc(function) or ""
    if "\n" not in text:
        return Described(_one_line(text), {})
    # Only a docstring of several lines may say something of parameters.
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Described(_first_paragraph(text), {})
    parameters = {each.arg_name: line for each in parsed.params if (line := _one_line(each.description or ""))}
    return Described(_first_paragraph(parsed.description or "" if parameters else text), parameters)


def _first_paragraph(text: str) -> str | None:
    return _one_line(text.split("\n\n")[0])


def _one_line(text: str) -> str | None:
    return " ".join(text.split()) or None
