"""The context windows of some model families, to suggest a `context_budget` before a model
refuses.
"""

from __future__ import annotations

import re
from functools import cache

_FAMILIES = (
    (1_000_000, r"gpt-4\.1|gemini-[123]|llama-4|gpt-5\.[4-9]|minimax-(m1|text)"),
    (400_000, r"gpt-5"),
    (256_000, r"grok-4|kimi-k2|qwen3-(max|coder)|codestral"),
    (200_000, r"claude|o[134](-|$)|minimax|glm-(4\.[6-9]|5)"),
    (
        128_000,
        r"gpt-4o|gpt-4-turbo|gpt-oss|deepseek|mistral-(large|medium|small)|llama-?3\.[123]|command-(r|a)|glm-4",
    ),
    (16_000, r"gpt-3\.5"),
    (8_000, r"gpt-4$|gpt-4-0"),
)
"""The vendors' figures (July 2026). The first matching pattern counts. Some servers accept fewer
tokens."""
_WINDOWS = [
    (tokens, re.compile(rf"(?:^|[/.:])(?:{pattern})", re.IGNORECASE))
    for tokens, pattern in _FAMILIES
]
CHARS_PER_TOKEN = 3
"""For a conversation in English, with room for tools and the answer."""


@cache
def window_of(model: str) -> int | None:
    """Return the approximate context window of a model in tokens, by its id; None if unknown."""
    return next((tokens for tokens, family in _WINDOWS if family.search(model)), None)
