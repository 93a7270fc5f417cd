"""Texts shortened for people."""

from __future__ import annotations

import pytest

from perdure.excerpt import excerpt, one_line


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("a\nbcd", "a\nbcd"), ("a\nbcde", "a\nbc…")])
def test_an_excerpt_has_at_most_the_limit(text: str, shown: str) -> None:
    assert excerpt(text, 5) == shown


@pytest.mark.parametrize(("text", "shown"), [(" a \n\t b ", "a b"), ("a\nb\nc d", "a b …")])
def test_one_line_folds_white_space_first(text: str, shown: str) -> None:
    assert one_line(text, 5) == shown
