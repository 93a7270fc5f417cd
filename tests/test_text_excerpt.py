"""Texts shortened for people."""

from __future__ import annotations

import json

import pytest

from perdure.text import count_of, excerpt, one_line, visible, visible_json


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("a\nbcd", "a\nbcd"), ("a\nbcde", "a\nbc…")])
def test_an_excerpt_has_at_most_the_limit(text: str, shown: str) -> None:
    assert excerpt(text, 5) == shown


@pytest.mark.parametrize(("text", "shown"), [(" a \n\t b ", "a b"), ("a\nb\nc d", "a b …")])
def test_one_line_folds_white_space_first(text: str, shown: str) -> None:
    assert one_line(text, 5) == shown


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 days"), (1, "1 day"), (1.0, "1 day"), (1.5, "1.5 days"), (1234567, "1,234,567 days")],
)
def test_a_number_is_told_with_its_noun(number: float, text: str) -> None:
    assert count_of(number, "day") == text


@pytest.mark.parametrize("mark", ["\u061c", "\u200e", "\u200f", "\u202e", "\u2066", "\x1b", "\x9b"])
def test_what_would_act_on_a_terminal_is_escaped(mark: str) -> None:
    assert visible(f"a{mark}b\n\u05d0\u200d") == f"a{ascii(mark)[1:-1]}b\n\u05d0\u200d"
    written = json.dumps({"a": f"a{mark}b"}, ensure_ascii=False)
    assert mark not in visible_json(written)
    assert json.loads(visible_json(written)) == json.loads(written, strict=False)
