"""From what a tool function returned to what the model reads."""

from __future__ import annotations

import asyncio
import base64
import datetime
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from perdure.messages import FilePart, ImagePart, TextPart, ToolResult
from perdure.text import cut_middle
from perdure.tool_results import SizeLimits
from perdure.tools.results import describe, to_result, with_advice

LIMITS = SizeLimits(text_bytes=1000, media_bytes=1000)


class Weather(BaseModel):
    city: str
    at: datetime.date


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (None, ""),
        (Weather(city="Köln", at=datetime.date(2026, 1, 2)), '{"city":"Köln","at":"2026-01-02"}'),
        (Point(1), '{"x":1}'),
        ({"a": [1, Point(2)], "b": {3}}, '{"a":[1,{"x":2}],"b":[3]}'),
        ([], "[]"),
        ([Weather(city="K", at=datetime.date(2026, 1, 2))], '[{"city":"K","at":"2026-01-02"}]'),
        ((1, "two"), '[1,"two"]'),
        ({"a": "\ud800"}, '{"a":"?"}'),
        ({"b": b"\xff"}, '{"b":"_w=="}'),
        (3.5, "3.5"),
        (True, "True"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (Point, str(Point)),
    ],
)
def test_values_become_text(value: Any, text: str) -> None:
    assert to_result(value, LIMITS) == ToolResult.of_text(text)


def test_bytes_become_a_file() -> None:
    (part,) = to_result(b"\x00\x01", LIMITS).parts
    assert part == FilePart.model_validate(
        {"source": "AAE=", "mediaType": "application/octet-stream"}
    )


def test_parts_and_results_stay_what_they_are() -> None:
    image = ImagePart(source="https://example.com/a.png")
    assert to_result(image, LIMITS).parts == [image]
    assert to_result([TextPart(value="look"), image], LIMITS).parts == [
        TextPart(value="look"),
        image,
    ]
    result = ToolResult.failure("no", kind="Nope")
    assert to_result(result, LIMITS) == result


def test_long_text_is_cut_with_a_notice_of_how_much() -> None:
    text = to_result("a" * 3_000_000 + "the end", LIMITS).text
    assert text.startswith("a" * 750 + "\n[… 2,999,007 of 3,000,007 bytes left out here …]\n")
    assert text.endswith("the end")
    assert len(text.encode()) < 1100


def test_cutting_never_splits_a_character() -> None:
    for limit in range(20, 30):
        cut = cut_middle("ä€😀" * 50, limit)
        assert "\ufffd" not in cut
        cut.encode()


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert to_result("a\ud800b", LIMITS).text == "a?b"


def test_all_parts_share_the_limits() -> None:
    parts = [TextPart(value="x" * 600)] * 4 + [
        ImagePart(source=base64.b64encode(bytes(600)).decode())
    ] * 2
    kept = to_result(parts, LIMITS).parts
    assert [part.kind for part in kept] == ["text", "text", "image", "text"]
    assert "200 of 600 bytes left out" in kept[1].value  # type: ignore[union-attr]
    assert kept[3] == TextPart(
        value="[… 3 more parts of 2,000 bytes left out: over the limit for a tool result …]"
    )


def test_an_error_message_is_cut_too() -> None:
    failed = ToolResult.failure("x" * 5000, kind="K").model_copy(update={"outcome_unknown": True})
    result = to_result(failed, LIMITS)
    assert len(result.error_message or "") < 1100
    assert len(result.text) < 1100
    assert (result.status, result.outcome_unknown) == ("error", True)


async def test_an_object_of_another_event_loop_is_explained() -> None:
    event = asyncio.Event()

    def wait_here() -> bool:
        return asyncio.run(event.wait())

    waiting = asyncio.create_task(event.wait())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError) as raised:
        await asyncio.to_thread(wait_here)
    waiting.cancel()
    assert "open the client in the function that uses it" in with_advice(describe(raised.value))
