"""Results that are too long for the conversation: shortened there, and kept whole."""

from __future__ import annotations

import random

import pytest

from perdure.client import get_run
from perdure.errors import UnknownCallError
from perdure.messages import FilePart, ImagePart, TextPart
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


def words(size: int, seed: object = 0) -> str:
    """Text of so many characters, that compresses to about a half."""
    return random.Random(str(seed)).randbytes(size // 2).hex()


async def test_the_conversation_has_it_shortened_and_the_history_whole(
    stage: Stage, scripted: Scripted
) -> None:
    long = words(500_000)
    model = scripted([asks(call("read", "c1")), says("long")])
    async with stage.worker({"read": lambda text="": long}):
        run = await stage.start(scripted_agent(model, ["read"]))
        result = await run.result()
        assert (await run.tool_result("c1")).text == long  # an open worker, a closed run
    shown = result.messages[3].text
    assert len(shown) < 65_700
    assert shown.startswith(long[:49_152] + "\n[… 434,464 of 500,000 bytes left out here …]\n")
    [event] = [event for event in await run.events() if event.type == "tool_result"]
    assert event.data == {"name": "read", "result": shown, "isShortened": True, "size": 500_000}
    whole = await get_run(stage.client, run.id).tool_result("c1")
    assert whole.text == long
    assert whole.size is None


async def test_beyond_a_megabyte_the_middle_is_lost(stage: Stage, scripted: Scripted) -> None:
    long = words(3_000_000)
    async with stage.worker({"read": lambda text="": long}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("read", "c1")), says("long")]), ["read"])
        )
        result = await run.result()
    kept = await run.tool_result("c1")
    assert kept.size == 3_000_000
    assert kept.text.startswith(
        long[:786_432] + "\n[… 1,951,424 of 3,000,000 bytes left out here …]\n"
    )
    assert kept.text.endswith(long[-262_144:])
    assert "\n[… 2,934,464 of 3,000,000 bytes left out here …]\n" in result.messages[3].text


async def test_a_tool_says_how_much_the_model_is_shown(stage: Stage, scripted: Scripted) -> None:
    declared = {"name": "read", "kind": "function", "perdure": {"maxResult": 100}}
    async with stage.worker({"read": lambda: "x" * 1000}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("read", "c1")), says("short")]), [declared])
        )
        result = await run.result()
    assert (
        result.messages[3].text == f"{'x' * 75}\n[… 900 of 1,000 bytes left out here …]\n{'x' * 25}"
    )
    assert (await run.tool_result("c1")).text == "x" * 1000


async def test_media_stay_beside_the_text(stage: Stage, scripted: Scripted) -> None:
    image, long = ImagePart(source="aGk=", mediaType="image/png"), words(100_000)

    def look(text: str = "") -> list[TextPart | ImagePart]:
        return [TextPart(value=long), image, TextPart(value="the end")]

    async with stage.worker({"look": look}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("look", "c1")), says("seen")]), ["look"])
        )
        result = await run.result()
    text, shown = result.messages[3].parts
    assert isinstance(text, TextPart)
    assert text.value.endswith("the end")
    assert shown == image
    assert (await run.tool_result("c1")).parts == [
        TextPart(value=long),
        image,
        TextPart(value="the end"),
    ]


async def test_what_json_makes_larger_still_fits(stage: Stage, scripted: Scripted) -> None:
    generator = random.Random(1)
    controls = "".join(map(chr, generator.choices(range(1, 32), k=1_000_000)))
    media = FilePart(
        source="".join(generator.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1_000_000))
    )
    async with stage.worker({"read": lambda text="": [TextPart(value=controls), media]}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("read", "c1")), says("odd")]), ["read"])
        )
        assert (await run.result()).output == "odd"
    kept = await run.tool_result("c1")
    assert kept.size == 1_000_000
    assert kept.parts[1] == media


async def test_the_calls_of_one_reply_share_what_is_kept(stage: Stage, scripted: Scripted) -> None:
    calls = [call("read", f"c{number}", text=str(number)) for number in range(100)]
    model = scripted([asks(*calls), says("a lot")])
    async with stage.worker({"read": lambda text="": words(200_000, text)}):
        run = await stage.start(scripted_agent(model, ["read"]), parallel_tool_calls=True)
        result = await run.result()
    shown = [len(message.text) for message in result.messages if message.role == "tool"]
    assert len(shown) == 100
    assert all(41_000 < size < 42_100 for size in shown)
    kept = await run.tool_result("c7")
    assert kept.size == 200_000
    assert 41_000 < len(kept.text) < 42_100


async def test_ids_that_a_model_uses_again(stage: Stage, scripted: Scripted) -> None:
    script = [
        asks(call("read", "c", text="a")),
        asks(call("read", "c", text="b")),
        asks(call("no", "d")),
        says("done"),
    ]
    async with stage.worker({"read": lambda text: text * 100_000}):
        run = await stage.start(scripted_agent(scripted(script), ["read"]))
        result = await run.result()
    asked = [
        each["id"] for message in result.messages for each in message.metadata.get("tool_calls", [])
    ]
    again = asked[1]
    assert again != "c"
    assert (await run.tool_result(again)).text == "b" * 100_000
    assert (await run.tool_result("c")).text == "a" * 100_000
    refused = await run.tool_result("d")
    assert refused.status == "error"
    assert refused.text.startswith("Error: Tool not registered: no")
    known = rf"c \(read, iteration 1\), {again} \(read, iteration 2\), d \(no, iteration 3\)"
    with pytest.raises(
        UnknownCallError, match=rf"no tool call 'e' has a result in this run: there are {known}"
    ):
        await run.tool_result("e")
    with pytest.raises(UnknownCallError, match="no tool call 'c' in iteration 3 has a result"):
        await run.tool_result("c", iteration=3)
