"""Texts shortened for people."""

from __future__ import annotations

import json

import pytest

from perdure.text import visible, visible_json


@pytest.mark.parametrize("mark", ["\u061c", "\u200e", "\u200f", "\u202e", "\u2066", "\x1b", "\x9b"])
def test_what_would_act_on_a_terminal_is_escaped(mark: str) -> None:
    assert visible(f"a{mark}b\n\u05d0\u200d") == f"a{ascii(mark)[1:-1]}b\n\u05d0\u200d"
    written = json.dumps({"a": f"a{mark}b"}, ensure_ascii=False)
    assert mark not in visible_json(written)
    assert json.loads(visible_json(written)) == json.loads(written, strict=False)
