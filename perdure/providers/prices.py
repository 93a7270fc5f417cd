"""The cost of model calls: by the worker owner's table, else by the price list of
`genai-prices`.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..agents import DEFAULT_PROVIDER, Agent
from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..messages import Usage

VARIABLE = "PERDURE_PRICES"
MILLION = 1_000_000
_NAMED_OTHERWISE = {"foundry": "azure"}
"""Providers that have another name in the price list."""

PriceSource = Mapping[str, Mapping[str, float]]
"""A table, `{"PROVIDER/MODEL": {"input": …, "output": …}}` in US dollars per million tokens."""


class Price(BaseModel):
    """The price of a model's tokens, in US dollars per million."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    """For input from the prompt cache; None: as other input."""
    cache_write: float | None = Field(default=None, ge=0)
    """For input that is written into the prompt cache; None: as other input."""
    cache_write_1h: float | None = Field(default=None, ge=0)
    """For input that the prompt cache keeps for an hour; None: as `cache_write`."""

    def of(self, usage: Usage) -> float | None:
        """Return the tokens' cost in US dollars; None if tokens with a price are not reported."""
        if not (usage.input_tokens or usage.output_tokens):
            return None if self.input or self.output else 0.0
        cached, kept, longer = _parts_of_input(usage)
        plain = usage.input_tokens - cached - kept
        read = self.input if self.cached_input is None else self.cached_input
        write = self.input if self.cache_write is None else self.cache_write
        longer_write = write if self.cache_write_1h is None else self.cache_write_1h
        written = (kept - longer) * write + longer * longer_write
        return (
            plain * self.input + cached * read + written + usage.output_tokens * self.output
        ) / MILLION


class Prices:
    """The price sources of a worker.

    `own` is a table, `{"openai/gpt-5*": {"input": 1.25, "cached_input": 0.125, "output": 10}}`,
    whose names may contain `*` and `?`: an exact name wins, else the first match. None stands for
    the table that `PERDURE_PRICES` names, if any. If it has no price, perdure looks in the list of
    `genai-prices`, which is installed with `perdure[prices]` and needs no network.

    Raises `ConfigurationError` for a malformed table.
    """

    def __init__(self, own: PriceSource | None = None) -> None:
        path = os.environ.get(VARIABLE) if own is None else None
        self._table = read_table(path) if path else _table({} if own is None else own, "prices")

    def of_call(self, agent: Agent, usage: Usage, model: str | None = None) -> float | None:
        """Return a call's cost in US dollars; None if its price is unknown. `model` is the reply's
        name for the model.

        The owner's prices may be for either name, that of the reply or the agent's. If the reply
        has a name, the list is searched for that one alone: a provider may answer with another
        model than the requested one.
        """
        provider, asked = names(agent)
        for name in dict.fromkeys([model or asked, asked]):
            if price := self._find(f"{provider}/{name}"):
                return price.of(usage)
        return listed_cost(agent, usage, model or asked)

    def knows(self, agent: Agent) -> bool:
        """Return whether there is a price for the agent's model."""
        usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        return self.of_call(agent, usage) is not None

    def _find(self, name: str) -> Price | None:
        fitting = (price for pattern, price in self._table.items() if fnmatchcase(name, pattern))
        return self._table.get(name) or next(fitting, None)


def names(agent: Agent) -> tuple[str, str]:
    """Return the agent's provider and model."""
    model = agent.model
    return (model.provider or DEFAULT_PROVIDER, model.id) if model else (DEFAULT_PROVIDER, "")


def listed_cost(agent: Agent, usage: Usage, model: str) -> float | None:
    """Return a call's cost by the list of `genai-prices`; None if that does not have the model, or
    is not installed.

    An endpoint in the list determines the provider: many servers use OpenAI's protocol. Never
    raises.
    """
    if not (usage.input_tokens or usage.output_tokens) or not model or not is_list_installed():
        return None
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    cached, kept, longer = _parts_of_input(usage)
    tokens = Tokens(
        input_tokens=usage.input_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=kept,
        output_tokens=usage.output_tokens,
        **({"cache_write_1h_tokens": longer} if longer else {}),
    )
    connection, provider = agent.model and agent.model.connection, names(agent)[0]
    by_endpoint: list[JsonObject] = (
        [{"provider_api_url": connection.endpoint}] if connection and connection.endpoint else []
    )
    for provided in [*by_endpoint, {"provider_id": _NAMED_OTHERWISE.get(provider, provider)}]:
        with suppress(LookupError, ValueError):
            if _is_listed(model, **provided):
                return float(calc_price(tokens, model, **provided).total_price)
    return None


@lru_cache(maxsize=1024)
def _is_listed(model: str, **provider: Any) -> bool:
    """Return whether the list has the model. The list remembers those that it has found, but
    searches for a missing one each time, which takes a fiftieth of a model call's work.
    """
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    try:
        calc_price(Tokens(input_tokens=1), model, **provider)
    except LookupError:
        return False
    except ValueError:
        pass  # It has no price for this use.
    return True


@cache
def is_list_installed() -> bool:
    """Return whether the list of `genai-prices` is installed."""
    return importlib.util.find_spec("genai_prices") is not None


def load_list() -> None:
    """Read the list, if it is installed, so that the first call does not wait for it: that takes
    about 50 ms.
    """
    listed_cost(Agent(), Usage(input_tokens=1), "gpt-5")


def _parts_of_input(usage: Usage) -> tuple[int, int, int]:
    """Return the tokens read from the cache, those written into it, and how many of these are kept
    for an hour.

    The first two never exceed the input together.
    """
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    kept = min(usage.cache_write_tokens, usage.input_tokens - cached)
    return cached, kept, min(usage.cache_write_1h_tokens, kept)


def read_table(path: str | os.PathLike[str]) -> dict[str, Price]:
    """Table in a file, JSON or YAML. Raises `ConfigurationError`, which names the file and the
    error.
    """
    import yaml

    where = f"{VARIABLE}={os.fspath(path)}"
    try:
        text = Path(path).read_text(encoding="utf-8")
        return _table(
            json.loads(text) if Path(path).suffix == ".json" else yaml.safe_load(text), where
        )
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{where}: the file can't be read: {error}") from error


def _table(value: Any, where: str) -> dict[str, Price]:
    try:
        return _TABLE.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigurationError(
            f"{where}: {place + ': ' if place else ''}{first['msg']}, got {first['input']!r:.80}. "
            "Expected US dollars per million tokens by PROVIDER/MODEL: {openai/gpt-5: {input: "
            "1.25, output: 10}}, as needed with cached_input, cache_write and cache_write_1h"
        ) from error


_TABLE = TypeAdapter(dict[Annotated[str, Field(pattern="^[^/]+/.")], Price])
