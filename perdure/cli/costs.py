"""What model calls have cost, as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def cost_of(data: Mapping[str, Any]) -> float | None:
    """The cost in US dollars that an event, or another record, tells; None where it is not known."""
    cost = data.get("cost_usd")
    return float(cost) if isinstance(cost, int | float) else None


def format_cost(usd: float) -> str:
    """`$1.25`, `$0.0312`: with as many digits as say something."""
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.3g}" if usd >= 0.0001 else "<$0.0001"
