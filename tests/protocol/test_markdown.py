"""What strangers wrote, in Markdown that Temporal's UI renders with all its HTML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.protocol.markdown import code, inert, url_chars


@given(st.text())
def test_code_is_one_span_on_one_line_in_one_cell(text: str) -> None:
    shown = code(text, 60)
    assert shown == "" or (shown[0], shown[-1]) == ("`", "`")
    assert not set("`|\n\r\t\u2028\x85") & set(shown[1:-1])
    shown.encode()


@given(st.text(min_size=200))
def test_code_is_short_in_a_url(text: str) -> None:
    assert len(code(text, 60)) <= 62 * 6, (
        "six characters stand for one that would act on a terminal"
    )
    assert url_chars(code(text, 60)) <= 60 * 3 + 6


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<img src=http://x/y.png>", "‹img src=http:\u2060//x/y.png›"),
        ("![x](http://y)", "![x]\u2060(http:\u2060//y)"),
        ("[x][y] [z]: w", "[x]\u2060[y] [z]\u2060: w"),
        ("`WWW.example.org`", "ˋWWW\u2060.example.orgˋ"),
        ("What is 2 * 3 [metres]?", "What is 2 * 3 [metres]?"),
    ],
)
def test_inert_text_has_no_html_image_or_link(text: str, shown: str) -> None:
    assert inert(text) == shown


def test_the_length_in_a_url() -> None:
    assert url_chars("a b|é") == len("a%20b%7C%C3%A9")
