"""What a model call costs: the owner's table, else the list of genai-prices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.errors import ConfigurationError
from perdure.messages import Usage
from perdure.providers.prices import Prices, read_table

from ..support.documents import ROOT

DOCS = ROOT / "docs/operations/cost.md"
USED = Usage(
    input_tokens=1000,
    output_tokens=100,
    total_tokens=1100,
    cached_input_tokens=400,
    cache_write_tokens=200,
)


def agent(
    model: str = "gpt-4o", provider: str | None = "openai", endpoint: str | None = None
) -> Agent:
    connection = {"kind": "key", "endpoint": endpoint} if endpoint else None
    return Agent.model_validate(
        {"model": {"id": model, "provider": provider, "connection": connection}}
    )


def test_each_kind_of_token_has_its_price() -> None:
    prices = Prices(
        {"openai/gpt-4o": {"input": 10, "output": 100, "cached_input": 1, "cache_write": 20}}
    )
    assert prices.of_call(agent(), USED) == pytest.approx(
        (400 * 10 + 400 * 1 + 200 * 20 + 100 * 100) / 1e6
    )


def test_what_is_kept_for_an_hour_has_its_price() -> None:
    used = USED.model_copy(update={"cache_write_1h_tokens": 150})
    price = {"input": 10, "output": 0, "cached_input": 0, "cache_write": 20}
    for more, longer in (({}, 20), ({"cache_write_1h": 32}, 32)):
        cost = Prices({"anthropic/c": {**price, **more}}).of_call(agent("c", "anthropic"), used)
        assert cost == pytest.approx((400 * 10 + 50 * 20 + 150 * longer) / 1e6)
    written = Usage(input_tokens=10**6, cache_write_tokens=10**6, cache_write_1h_tokens=10**6)
    assert Prices().of_call(agent("claude-opus-4-5", "anthropic"), written) == pytest.approx(10)


@pytest.mark.parametrize(
    ("provider", "model", "said", "price"),
    [
        ("openai", "gpt-4o", None, 1),
        ("openai", "gpt-4o-mini", None, 2),
        ("openai", "gpt-4o", "gpt-4o-2024-08-06", 2),
        ("openai", "prod", "prod-7", 4),
        (None, "gpt-4o", None, 1),
        ("anthropic", "gpt-4o", None, 3),
    ],
)
def test_names_in_a_table(provider: str | None, model: str, said: str | None, price: float) -> None:
    table = {
        "openai/gpt-4o*": {"input": 2, "output": 0},
        "openai/gpt-4o": {"input": 1, "output": 0},
        "anthropic/*": {"input": 3, "output": 0},
        "openai/prod": {"input": 4, "output": 0},
    }
    used = Usage(input_tokens=1_000_000)
    assert Prices(table).of_call(agent(model, provider), used, said) == price


def test_the_list_has_the_prices_of_public_models_and_of_their_caches() -> None:
    plain, cached = Usage(input_tokens=1000), Usage(input_tokens=1000, cached_input_tokens=1000)
    full = Prices({}).of_call(agent(), plain, "gpt-4o-2024-08-06")
    less = Prices({}).of_call(agent(), cached, "gpt-4o-2024-08-06")
    assert full is not None
    assert less is not None
    assert 0 < less < full
    written = Prices({}).of_call(agent("claude-sonnet-4-5", "anthropic"), USED)
    assert written is not None
    assert written > 0


def test_an_endpoint_that_the_list_knows_tells_the_provider() -> None:
    used = Usage(input_tokens=1000, output_tokens=10)
    assert Prices({}).of_call(agent("deepseek-chat"), used) is None
    assert Prices({}).of_call(agent("deepseek-chat", endpoint="https://api.deepseek.com/v1"), used)
    assert Prices({}).of_call(agent(endpoint="http://127.0.0.1:9/v1"), used)


def test_what_nobody_knows_has_no_price() -> None:
    prices = Prices({"openai/house-*": {"input": 1, "output": 1}})
    assert prices.of_call(agent("zzz"), USED) is None
    assert prices.of_call(Agent(), USED) is None
    assert prices.of_call(agent(), USED, "zzz") is None, "another model has answered"
    assert prices.of_call(agent("house-1"), USED, "zzz") is not None, (
        "the table is asked for either name"
    )
    assert [prices.knows(agent(name)) for name in ("zzz", "gpt-4o", "house-1")] == [
        False,
        True,
        True,
    ]


def test_tokens_that_are_not_told_have_no_price_unless_they_are_free() -> None:
    assert Prices({}).of_call(agent(), Usage()) is None
    assert Prices({"openai/*": {"input": 1, "output": 1}}).of_call(agent(), Usage()) is None
    assert Prices({"openai/*": {"input": 0, "output": 0}}).of_call(agent(), Usage()) == 0


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ([], r"prices: Input should be a valid dictionary, got \[\]"),
        (
            {"gpt-4o": {"input": 1, "output": 1}},
            "got 'gpt-4o'. Expected US dollars per million tokens by PROVIDER/MODEL",
        ),
        (
            {"openai/a": {"input": 1}},
            r"prices: openai/a.output: Field required, got \{'input': 1\}",
        ),
        (
            {"openai/a": {"input": -1, "output": 1}},
            "openai/a.input: Input should be greater than or equal to 0",
        ),
        (
            {"openai/a": {"input": float("nan"), "output": 1}},
            "openai/a.input: Input should be a finite number",
        ),
        (
            {"openai/a": {"input": 1, "output": 1, "cache": 1}},
            "openai/a.cache: Extra inputs are not permitted",
        ),
        ({"openai/a": 3}, "openai/a: Input should be a valid dictionary"),
    ],
)
def test_a_table_that_is_none_says_what_is_wrong(table: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Prices(table)


@pytest.mark.parametrize(
    ("name", "text"), [("p.yaml", "openai/a: {input: 1"), ("p.json", "{"), ("p.yml", "\x00")]
)
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(
        ConfigurationError, match=f"PERDURE_PRICES={re.escape(str(file))}: the file can't be read"
    ):
        read_table(file)
    with pytest.raises(ConfigurationError, match="can't be read: .*No such file"):
        read_table(tmp_path / "absent.yaml")


def test_the_environment_names_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"openai/zzz": {"input": 1000, "output": 0}}')
    monkeypatch.setenv("PERDURE_PRICES", str(file))
    assert Prices().of_call(agent("zzz"), USED) == 1
    assert Prices({}).of_call(agent("zzz"), USED) is None, "what the worker is given comes first"


def test_the_table_of_the_page(tmp_path: Path) -> None:
    [table] = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    file = tmp_path / "prices.yaml"
    file.write_text(table)
    assert set(read_table(file)) == {"openai/gpt-5", "anthropic/claude-*", "openai/llama-*"}


def test_a_server_that_counts_more_from_its_cache_than_it_was_sent() -> None:
    told = Usage(
        input_tokens=10, cached_input_tokens=7, cache_write_tokens=50, cache_write_1h_tokens=60
    ).plausible()
    assert (told.cached_input_tokens, told.cache_write_tokens, told.cache_write_1h_tokens) == (
        7,
        3,
        3,
    )
    assert Usage(input_tokens=10, cached_input_tokens=99).plausible().cache_share == 1.0
    assert Usage(input_tokens=10, cached_input_tokens=99).plausible().cached_input_tokens == 10
