"""Checks an asset's template: its syntax, variables and roles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import RenderError
from ...json_types import JsonView
from ...text import did_you_mean
from ..jinja import parse_jinja, used_variables
from ..render import FORMATS, ROLES, find_markers
from ..shorthands import maps_in
from .findings import Finding, bindings_of, names_of, warning

_NUNJUCKS = (
    "Jinja2 renders this template: it prints lists and maps as JSON, treats empty ones as false, "
    "and has no JavaScript methods (perdure docs prompty-files)"
)
_HISTORY_ROLE = r"-?\s*+\w++(?:\.role|\[['\"]role['\"]\])\s*+-?\}\}"
_ROLE_OF_A_VALUE = re.compile(
    rf"^[^\S\n]*+#?+[^\S\n]*+\{{\{{(?!{_HISTORY_ROLE})[^{{}}\n]*+\}}\}}[^\S\n]*+:[^\S\n]*+$",
    re.MULTILINE,
)
"""A role that a value determines, except `{{item.role}}:` of a history."""
_LONE_WORD = re.compile(r"^[^\S\n]*+#?+[^\S\n]*+([A-Za-z]++)[^\S\n]*+:[^\S\n]*+$", re.MULTILINE)


def template_findings(asset: JsonView, first_line: int) -> Iterator[Finding]:
    """Yield the errors and likely mistakes in `template` and in the instructions, which begin on
    line `first_line` of the file.
    """
    kind = _kind(asset, "format", "jinja2")
    if kind not in FORMATS:
        yield Finding(
            ("template", "format", "kind"),
            f"No renderer registered for key: {kind}. Expected {' or '.join(FORMATS)}",
        )
    if _kind(asset, "parser", "prompty") != "prompty":
        yield Finding(
            ("template", "parser", "kind"),
            f"No parser registered for key: {_kind(asset, 'parser', '')}. Expected prompty",
        )
    text = asset.get("instructions")
    if not isinstance(text, str) or not text.strip():
        yield warning((), "no instructions: the body is empty")
        return
    if kind in FORMATS:
        if kind == "nunjucks":
            yield warning(("template", "format", "kind"), _NUNJUCKS)
        yield from _variables(asset, text, first_line)
    yield from _roles(asset, text, first_line)


def _kind(asset: JsonView, part: str, default: str) -> Any:
    return _setting(asset, part, "kind", default)


def _setting(asset: JsonView, part: str, key: str, default: Any) -> Any:
    template = asset.get("template")
    config = template.get(part) if isinstance(template, Mapping) else None
    return config.get(key, default) if isinstance(config, Mapping) else default


def _variables(asset: JsonView, text: str, first_line: int) -> Iterator[Finding]:
    try:
        used = used_variables(parse_jinja(text))
    except RenderError as error:
        message = re.sub(r" \(line \d+\)$", "", str(error))
        yield Finding((), message, line=first_line + (error.line or 1) - 1)
        return
    yield from _undeclared_variables(asset, used, first_line)
    yield from _unused_inputs(asset, used)


def _undeclared_variables(
    asset: JsonView, used: Mapping[str, int], first_line: int
) -> Iterator[Finding]:
    """Yield the used variables that are not declared inputs, each with its line."""
    declared = names_of(asset.get("inputs"))
    for name, line in used.items():
        if name not in declared:
            hint = did_you_mean(name, declared)
            yield warning(
                (), f"the variable {name!r} is not a declared input{hint}", first_line + line - 1
            )


def _unused_inputs(asset: JsonView, used: Mapping[str, int]) -> Iterator[Finding]:
    bound = {source for _, _, source in bindings_of(asset)}
    for place, item in maps_in(asset.get("inputs"), ("inputs",)):
        name = item.get("name")
        if isinstance(name, str) and name and name not in used and name not in bound:
            consequence = (
                "its messages come last" if item.get("kind") == "thread" else "it has no effect"
            )
            yield warning(place, f"the input {name!r} is not used in the template: {consequence}")


def _roles(asset: JsonView, text: str, first_line: int) -> Iterator[Finding]:
    if not any(find_markers(text)):
        yield warning((), "no role marker: the whole text becomes one system message", first_line)
    if _setting(asset, "format", "strict", True) is True:
        for match in _ROLE_OF_A_VALUE.finditer(text):
            line = first_line + text.count("\n", 0, match.start())
            advice = (
                "declare an input of kind thread, or loop over a history with `{{item.role}}:` "
                "(user, assistant)"
            )
            yield warning(
                (), f"{match[0].strip()!r}: a role from a value is refused (§6.3): {advice}", line
            )
    for match in _LONE_WORD.finditer(text):
        word = match[1].lower()
        hint = did_you_mean(word, ROLES)
        if word not in ROLES and (hint or word == "tool"):
            line = first_line + text.count("\n", 0, match.start())
            yield warning((), f"{match[0].strip()!r} is not a role marker{hint}", line)
