"""Texts shortened for people."""

from __future__ import annotations

import pytest

from perdure.excerpt import counted, excerpt, one_line


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("a\nbcd", "a\nbcd"), ("a\nbcde", "a\nbc…")])
def test_an_excerpt_has_at_most_the_limit(text: str, shown: str) -> None:
    assert excerpt(text, 5) == shown


@pytest.mark.parametrize(("text", "shown"), [(" a \n\t b ", "a b"), ("a\nb\nc d", "a b …")])
def test_one_line_folds_white_space_first(text: str, shown: str) -> None:
    assert one_line(text, 5) == shown


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 days"), (1, "1 day"), (1.0, "1 day"), (1.5, "1.5 days"), (1234567, "1,234,567 days")]
)
def test_a_number_is_told_with_its_noun(number: float, text: str) -> None:
    assert counted(number, "day") == text
