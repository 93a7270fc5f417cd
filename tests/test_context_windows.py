"""Which models' contexts are known, by the ids that providers give them."""

from __future__ import annotations

import pytest

from perdure.context_windows import window_of


@pytest.mark.parametrize(
    ("id", "tokens"),
    [
        ("gpt-5", 400_000),
        ("gpt-5.4", 1_000_000),
        ("gpt-4.1-mini", 1_000_000),
        ("gpt-4o-2024-11-20", 128_000),
        ("gpt-4", 8_000),
        ("o3-mini", 200_000),
        ("claude-sonnet-4-5", 200_000),
        ("anthropic/claude-opus-4.1", 200_000),
        ("us.anthropic.claude-sonnet-4-5-v1:0", 200_000),
        ("google/gemini-3-pro", 1_000_000),
        ("models/gemini-2.5-flash", 1_000_000),
        ("deepseek-chat", 128_000),
        ("my-gpt-5", None),
        ("foo3-large", None),
        ("llama3.2", 128_000),
        ("scripted", None),
        ("", None),
    ],
)
def test_windows(id: str, tokens: int | None) -> None:
    assert window_of(id) == tokens
