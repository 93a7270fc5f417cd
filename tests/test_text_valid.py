"""Texts of strangers: cut where they are long, in a time that their length gives."""

from __future__ import annotations

import time

import pytest

from perdure.text import bounded_text, says_something
from perdure.tools.builtin import _matches_text


def test_a_cut_text_ends_with_a_whole_word() -> None:
    assert (
        bounded_text("some words " * 10, 60)
        == "some words some words some words some [… cut: 110 bytes]"
    )
    assert bounded_text("ä" * 3000, 5000) == f"{'ä' * 1464} [… cut: 6,000 bytes]"


def test_a_long_word_takes_no_long_time() -> None:
    began = time.process_time()
    cut = bounded_text("x" * 3_000_000, 1_000_000)
    assert len(cut) < 1_000_000
    assert _matches_text("x" * 1_000_000 + "y" * 5, "x" * 2000 + "Y" * 5, 0).startswith(
        "[found in 1 place]"
    )
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\u200b",
        "\u2063\u00ad\u3164\u115f\u2800",
        "\U000e0041\U000e0042",
        "\ufe0f\u034f",
        "\u202e",
    ],
)
def test_a_text_that_nobody_sees_says_nothing(text: str) -> None:
    assert not says_something(text)
    assert says_something(f"{text}.{text}")
