"""The choice of model calls that use background responses, which the provider finishes even if the
worker is lost.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from .agents import Model
from .json_types import JsonObject

Background = Literal["auto", "on", "off"]

_PROVIDERS = frozenset({"openai", "azure", "foundry"})
_REASONS_BY_DEFAULT = re.compile(
    r"^(?:ft:)?(?:o\d|gpt-5(?![.\d]|-chat))|codex|deep-research|-pro\b"
)
"""Models that think for long by default. Those from gpt-5.1 on think only on request."""
_SHORT_EFFORTS = frozenset({"none", "minimal", "low"})


def background_of(model: Model | None) -> Background:
    """Return the setting of the model's options; `off` if the response must not be stored, and for
    another API.
    """
    options = model.options if model else None
    further: JsonObject = (options.additional_properties if options else None) or {}
    if model is None or model.api_type != "responses" or further.get("store") is False:
        return "off"
    if options is not None and options.background is not None:
        return options.background
    if isinstance(asked := further.get("background"), bool):
        return "on" if asked else "off"
    return "auto"


def may_run_in_background(model: Model | None) -> bool:
    """Return whether the model may use background responses: `auto` is for models that think for
    long.
    """
    asked = background_of(model)
    if model is None or asked != "auto":
        return asked == "on"
    return model.provider_key in _PROVIDERS and _thinks_for_long(model)


def _thinks_for_long(model: Model) -> bool:
    options = model.options
    reasoning: Any = ((options and options.additional_properties) or {}).get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    if isinstance(effort, str):
        return effort not in _SHORT_EFFORTS
    return _REASONS_BY_DEFAULT.search(model.id) is not None
