"""Amounts of money as people read them."""

from __future__ import annotations

DIGITS = 10
"""Decimal places that sums are rounded to, so that adding floats leaves no dust."""


def format_usd(amount: float | None, *, unpriced: int = 0) -> str:
    """The amount in US dollars, such as `$0.031`; "" when nothing is known.

    From one dollar on it has cents, below two significant digits. `unpriced` is how many model calls it lacks, because
    their price is not known: then it is a least amount.
    """
    if amount is None:
        return ""
    text = f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${_digits(amount)}"
    return f"at least {text}" if unpriced else text


def _digits(amount: float) -> str:
    places = 2
    while places < DIGITS and round(amount, places) < 10 ** (1 - places):
        places += 1
    return f"{amount:.{places}f}"
