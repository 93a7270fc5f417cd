"""The rates of model calls per second that a task queue's workers share, by provider or model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from ..errors import ConfigurationError

_UNITS = {"s": 1.0, "min": 60.0}
_RATE = re.compile(r"(?P<name>[^=]+)=\s*(?P<number>[0-9]*\.?[0-9]+)/(?P<unit>s|min)")


def parsed_rates(texts: Iterable[str]) -> dict[str, float]:
    """Calls per second by name, from texts such as `openai=50/s` and `openai/gpt-4o=300/min`.

    Raises `ConfigurationError` for a text of another form, and for two rates of one name.
    """
    rates: dict[str, float] = {}
    for text in texts:
        match = _RATE.fullmatch(text.strip())
        if match is None:
            raise ConfigurationError(
                f"{text!r} is not a rate: expected PROVIDER=N/s, PROVIDER/MODEL=N/s, or N/min"
            )
        name = match["name"].strip()
        if name in rates:
            raise ConfigurationError(f"there are two rates for {name!r}: give one")
        rates[name] = float(match["number"]) / _UNITS[match["unit"]]
    return require_rates(rates)


def require_rates(rates: Mapping[str, float]) -> dict[str, float]:
    """Return the same rates. Raises `ConfigurationError` for one that is not a number above 0, or
    has no name.
    """
    for name, rate in rates.items():
        is_name = isinstance(name, str) and all(name.split("/", 1))
        is_rate = isinstance(rate, int | float) and math.isfinite(rate) and rate > 0
        if not (is_name and is_rate):
            raise ConfigurationError(
                f"{name!r} has the rate {rate!r}: expected calls per second, above 0, by a "
                "provider or `PROVIDER/MODEL`"
            )
    return dict(rates)


def rate_name(rates: Iterable[str], provider: str, model: str | None) -> str | None:
    """Return the name of a model's rate: its own, else its provider's; None if there is none."""
    known = set(rates)
    return next((name for name in (f"{provider}/{model}", provider) if name in known), None)


def shown_rate(rate: float) -> str:
    """Such as `50/s` and `30/min`."""
    return f"{rate:g}/s" if rate >= 1 else f"{rate * 60:g}/min"
