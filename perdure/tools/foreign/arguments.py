"""The arguments of a call as the other worker gets them: checked, completed, as one object or one by one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...agent import Property
from ..signature import InvalidArguments
from ..validation import MAX_PROBLEMS, find_problems, without_absent
from .options import CallOptions


def complete_arguments(options: CallOptions, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the model wrote, checked, with the bound parameters and the defaults of those that it left out.

    Raises InvalidArguments.
    """
    visible = [prop for prop in options.parameters if prop.name not in options.hidden]
    written = without_absent(visible, {name: value for name, value in given.items() if name not in options.hidden})
    if problems := [*_unknown(visible, written), *find_problems(visible, written)]:
        raise InvalidArguments(problems)
    defaults = {prop.name: prop.default for prop in options.parameters if prop.default is not None}
    return {**defaults, **written, **options.bound}


def _unknown(parameters: Sequence[Property], arguments: Mapping[str, Any]) -> list[str]:
    names = [prop.name for prop in parameters]
    known = ", ".join(names) or "there are none"
    return [f"'{name:.100}' is not a parameter ({known})" for name in arguments if name not in names][:MAX_PROBLEMS]


def as_sent(options: CallOptions, arguments: Mapping[str, Any]) -> list[Any]:
    """The arguments of the activity or workflow; none at all for a tool without parameters.

    One by one, those in the middle that are absent are null, and those at the end are left out.
    """
    if not options.parameters:
        return []
    if options.arguments == "object":
        return [dict(arguments)]
    values = [arguments.get(prop.name) for prop in options.parameters]
    given = [prop.name in arguments for prop in options.parameters]
    while given and not given[-1]:
        values.pop()
        given.pop()
    return values
