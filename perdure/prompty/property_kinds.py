"""The kinds of properties: that of a plain value, and other names for them (§2.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRESENT_NAMES = {"number": "float"}
"""A name that files have for a kind → the kind."""
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "float"),
    (list, "array"),
    (Mapping, "object"),
)


def kind_of(value: Any) -> str:
    """The property kind of a plain value (§2.6); "string" for None."""
    return next((kind for python_type, kind in _KINDS if isinstance(value, python_type)), "string")
