"""Which calls are equal, so that one of them may repeat another."""

from __future__ import annotations

import pytest

from perdure.arguments import parse_with_repair
from perdure.unknown_outcomes import same_call

CALL = '{"to": "Zoë", "euros": 5, "lines": [{"a": 1, "b": true}]}'


@pytest.mark.parametrize(
    "written",
    [
        '{"lines": [{"b": true, "a": 1}], "euros": 5, "to": "Zoë"}',
        CALL.replace("5", "5.0"),
        CALL.replace("5", "5e0"),
        CALL.replace("5", '"5"'),
        CALL.replace("Zoë", "Zo\\u00eb"),
        CALL.replace('"euros"', '"note": null, "euros"'),
        f"```json\n{CALL}\n```",
    ],
)
def test_what_means_the_same_is_equal(written: str) -> None:
    assert same_call("pay", parse_with_repair(written)[0]) == same_call(
        "pay", parse_with_repair(CALL)[0]
    )


@pytest.mark.parametrize(
    "written",
    [
        CALL.replace("5", "6"),
        CALL.replace("5", "5.5"),
        CALL.replace("5", "[5]"),
        CALL.replace("true", "1"),
        CALL.replace("Zoë", "zoë"),
        CALL.replace('{"a": 1, "b": true}', '{"a": 1, "b": true}, {}'),
        CALL.replace('"euros"', '"note": "", "euros"'),
    ],
)
def test_anything_else_is_another_call(written: str) -> None:
    assert same_call("pay", parse_with_repair(written)[0]) != same_call(
        "pay", parse_with_repair(CALL)[0]
    )


def test_another_tool_is_another_call_and_odd_numbers_have_a_form() -> None:
    assert same_call("pay", {}) != same_call("refund", {})
    assert same_call("pay", {"n": float("nan")}) == same_call("pay", {"n": float("nan")})
    assert same_call("pay", {"n": float("inf")}) != same_call("pay", {"n": float("-inf")})
    assert same_call("pay", {"n": -0.0}) == same_call("pay", {"n": 0})
