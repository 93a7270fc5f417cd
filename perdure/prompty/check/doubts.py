"""What loading accepts and warns of: hardly anybody means it, and a run does something else than its author expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import RenderError
from ..jinja import parse_jinja, used_variables
from .fields import unknown_properties
from .findings import Finding
from .template import undeclared_variables


def doubts(asset: Mapping[str, Any], written: Mapping[str, Any], first_line: int) -> Iterator[Finding]:
    """Properties that nothing reads, and variables of the template that are no inputs.

    `asset` is in canonical form, `written` what its author wrote; the instructions begin on line `first_line`.
    """
    yield from unknown_properties(asset, written)
    try:
        used = used_variables(parse_jinja(str(asset.get("instructions") or "")))
    except RenderError:
        return  # Whoever renders it says so.
    yield from undeclared_variables(asset, used, first_line)
