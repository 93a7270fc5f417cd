"""Rates of model calls, as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import ConfigurationError
from perdure.providers.rates import parsed_rates, rate_name, require_rates, shown_rate


def test_rates_are_calls_per_second() -> None:
    assert parsed_rates(["openai=50/s", "openai/gpt-4o=30/min", " anthropic = 0.5/s"]) == {
        "openai": 50.0,
        "openai/gpt-4o": 0.5,
        "anthropic": 0.5,
    }


@pytest.mark.parametrize(
    "text", ["openai", "openai=50", "openai=/s", "openai=x/s", "openai=5/h", "=5/s", "openai=5/s/s"]
)
def test_anything_else_says_what_is_expected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected PROVIDER=N/s"):
        parsed_rates([text])


@pytest.mark.parametrize("name", [5, None, ("openai",)])
def test_what_has_a_rate_is_a_text(name: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="expected calls per second, above 0, by a provider"
    ):
        require_rates({name: 5})


def test_two_rates_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two rates for 'openai'"):
        parsed_rates(["openai=5/s", "openai=6/s"])


def test_the_rate_of_a_model_comes_before_that_of_its_provider() -> None:
    rates = {"openai": 50.0, "openai/gpt-4o": 1.0, "anthropic/a/b": 2.0}
    assert rate_name(rates, "openai", "gpt-4o") == "openai/gpt-4o"
    assert rate_name(rates, "openai", "gpt-5") == rate_name(rates, "openai", None) == "openai"
    assert rate_name(rates, "anthropic", "a/b") == "anthropic/a/b"
    assert rate_name(rates, "anthropic", "c") is None


def test_rates_are_shown_as_they_are_written() -> None:
    assert [shown_rate(50.0), shown_rate(0.5), shown_rate(1.5)] == ["50/s", "30/min", "1.5/s"]
