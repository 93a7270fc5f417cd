"""A tool call in few words."""

from __future__ import annotations

import json
from typing import Any

from ..excerpt import one_line
from .console import to_json


def short_call(name: str, arguments: Any, limit: int = 200) -> str:
    """`name(city="Paris", days=2)` on one line; the arguments are JSON text or any value, of which the end is cut."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return f"{one_line(name)}({one_line(arguments, limit)})"
    if not isinstance(arguments, dict):
        return f"{one_line(name)}({one_line(to_json(arguments, indent=None), limit)})"
    pairs = ", ".join(f"{key}={to_json(value, indent=None)}" for key, value in arguments.items())
    return f"{one_line(name)}({one_line(pairs, limit)})"
