"""What the clerk may do; `perdure worker --tools tools.py` executes it."""

from perdure import tool

ORDERS = {"7": "a kettle, 30 euros, arrived broken"}


@tool
def look_up(order: str) -> str:
    """Look an order up by its number."""
    return ORDERS.get(order, f"there is no order {order!r}")


@tool(idempotent=False)
def refund(order: str, euros: float) -> str:
    """Pay money back for an order."""
    return f"{euros:g} euros paid back for order {order}"
