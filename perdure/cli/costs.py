"""What model calls have cost, as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..money import format_usd


def cost_of(data: Mapping[str, Any]) -> float | None:
    """The cost in US dollars that an event, or another record, tells; None where it is not known."""
    cost = data.get("costUsd", data.get("cost_usd"))
    return float(cost) if isinstance(cost, int | float) else None


def format_cost(usd: float) -> str:
    """`$1.25`, `$0.031`: with as many digits as say something."""
    return format_usd(usd)
