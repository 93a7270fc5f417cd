"""The built-in tool `read_result`, in a run: pages through what was shortened."""

from __future__ import annotations

import json
import re
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.json_types import JsonObject
from perdure.testing import (
    ScriptedReply,
    ScriptedRequest,
    asks,
    call,
    says,
)

from ..runs.test_tool_results import words
from ..support import foreign_tools as foreign
from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage

LONG = words(200_000)
READ_RESULT = {"name": "read_result", "kind": "builtin"}
TOOLS = ["find", READ_RESULT]


def find(text: str = "") -> str:
    """Find."""
    return LONG


def texts(result: Any) -> list[str]:
    return tool_texts(result.messages)


async def test_a_model_reads_on_where_the_note_says(stage: Stage, scripted: Scripted) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        last = request.messages[-1].text
        if note := re.search(r"; read_result\((\{.*?\})\) reads on from here …\]", last):
            return asks(call("read_result", f"r{request.step}", **json.loads(note[1])))
        if rest := re.search(r"; the rest begins at offset (\d+)\]", last):
            return asks(call("read_result", f"r{request.step}", call_id="c1", offset=int(rest[1])))
        return says("all") if request.step else asks(call("find", "c1"))

    async with stage.worker({"find": find}):
        run = await stage.start(scripted_agent(scripted(script), TOOLS))
        result = await run.result()
    first, *pages = texts(result)
    read = first.partition("\n[… ")[0]
    for page in pages:
        head, _, piece = page.partition("\n")
        assert head.startswith(
            f"[characters {len(read):,} to {len(read) + len(piece):,} of 200,000"
        )
        assert len(page.encode()) <= 64 * 1024
        read += piece
    assert read == LONG
    assert pages[-1].startswith("[characters 179,200 to 200,000 of 200,000, which is its end]")
    assert all("left out" not in page for page in pages)


async def test_what_it_answers(stage: Stage, scripted: Scripted) -> None:
    asked: list[JsonObject] = [
        {"call_id": "c1", "offset": 10, "length": 5},
        {"call_id": "c1", "offset": 300_000},
        {"call_id": "c1", "search": LONG[5_000:5_020].upper()},
        {"call_id": "c1", "search": "nowhere in it"},
        {"call_id": "c1", "search": "a", "offset": 150_000},
        {"call_id": "c2"},
        {"call_id": "r0"},
        {"call_id": "c1", "iteration": 7},
        {"call_id": "c1", "offset": -1},
        {"offset": 1},
    ]
    calls = [call("read_result", f"r{number}", **each) for number, each in enumerate(asked)]
    script = [asks(call("find", "c1")), *map(asks, calls), says("done")]
    async with stage.worker({"find": find}):
        run = await stage.start(scripted_agent(scripted(script), TOOLS), max_iterations=20)
        _, part, beyond, found, nowhere, often, unknown, itself, elsewhere, negative, missing = (
            texts(await run.result())
        )
    assert part == f"[characters 10 to 15 of 200,000; the rest begins at offset 15]\n{LONG[10:15]}"
    assert beyond == "[the result has 200,000 characters: nothing begins at 300,000]"
    assert found == f"[found in 1 place]\n\noffset 5000: …{LONG[4_850:5_170]}…"
    assert nowhere == "[not found in the 200,000 characters, from offset 0 on]"
    assert re.match(r"\[found in [\d,]+ places; search on from offset 15\d\d\d\d\]", often)
    assert often.count("\noffset ") == 20
    known = "has a result in this run: there are c1 (find, iteration 1)"
    assert f"no tool call 'c2' {known}" in unknown
    assert f"no tool call 'r0' {known}" in itself
    assert f"no tool call 'c1' in iteration 7 {known}" in elsewhere
    assert "Invalid arguments for tool 'read_result'" in negative
    assert "'call_id' is required" in missing


async def test_without_it_the_note_does_not_name_it(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker({"find": find}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("find", "c1")), says("done")]), ["find"])
        )
        [shown] = texts(await run.result())
    assert "read_result" not in shown


async def test_many_pages_at_once_are_not_shortened_in_a_circle(
    stage: Stage, scripted: Scripted
) -> None:
    calls = [
        call("read_result", f"r{number}", call_id="c1", offset=number * 1000)
        for number in range(70)
    ]
    script = [asks(call("find", "c1")), asks(*calls), says("done")]
    async with stage.worker({"find": find}):
        run = await stage.start(scripted_agent(scripted(script), TOOLS), parallel_tool_calls=True)
        [_, *pages] = texts(await run.result())
    assert len(pages) == 70
    assert all("left out here …]" in page for page in pages)


@activity.defn
async def look_up(number: int) -> dict[str, str]:
    return {"found": words(100_000, number)}


@workflow.defn(sandboxed=False)
class Report:
    @workflow.run
    async def run(self, number: int) -> str:
        return words(100_000, number)


async def test_what_others_answer_is_read_too(
    stage: Stage, scripted: Scripted, client: Client
) -> None:
    queue = f"{stage.task_queue}-others"
    tools = [
        foreign.activity("look_up", queue, "number:integer!", arguments="positional"),
        foreign.workflow("Report", queue, "number:integer!", arguments="positional"),
        READ_RESULT,
    ]
    reads = [
        call("read_result", f"r{number}", call_id=f"c{number}", offset=90_000, length=20)
        for number in (1, 2)
    ]
    asked = [call("look_up", "c1", number=1), call("Report", "c2", number=2)]
    model = scripted([asks(*asked), asks(*reads), says("done")])
    own = await Client.connect(client.service_client.config.target_host)
    async with (
        stage.worker(),
        Worker(own, task_queue=queue, activities=[look_up], workflows=[Report]),
    ):
        run = await stage.start(scripted_agent(model, tools))
        found, report, *pages = texts(await run.result())
    assert len(found) < 66_000
    assert len(report) < 66_000
    answer = json.dumps({"found": words(100_000, 1)}, separators=(",", ":"))
    assert [page.partition("\n")[2] for page in pages] == [
        answer[90_000:90_020],
        words(100_000, 2)[90_000:90_020],
    ]
    assert (await run.tool_result("c1")).text == answer
    assert (await run.tool_result("c2")).text == words(100_000, 2)
