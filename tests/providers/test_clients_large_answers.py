"""An answer is counted as it is unpacked, and given up beyond `RunOptions.max_answer_bytes`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import pytest

from perdure.errors import ExecuteError
from perdure.options import RunOptions
from perdure.providers import close_clients

from ..support.recorded_server import Recorded, RecordedServer, recorded_server
from ..support.stage import Stage
from ..support.wild_provider import APIS, answer, asking, events, stream

GIB = 1024**3
MAX_GROWTH_MIB = 100
"""16 MiB of an answer, in pieces and as a whole, and of an error's body, decoded once more."""


@pytest.fixture
async def wild() -> AsyncIterator[RecordedServer]:
    async with recorded_server() as server:
        yield server
        await close_clients()


async def test_two_gigabytes_in_a_small_answer() -> None:
    await explode("gzip", "text", "error", "objects")


async def explode(*names: str) -> None:
    """Answer with these bombs, in a process of their own: each ends the call, and none fills the
    memory.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.bombs", str(2 * GIB), *names),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    outcomes = json.loads(printed)
    limit = (
        "invalid_response: The answer has more than 16,777,216 bytes, which "
        "RunOptions.max_answer_bytes allows"
    )
    kinds = {name: outcome["outcome"].partition(":")[0] for name, outcome in outcomes.items()}
    assert kinds.pop("error") == "bad_request"
    assert set(kinds.values()) == {"invalid_response"}
    assert outcomes["gzip"]["outcome"] == outcomes["text"]["outcome"] == limit
    assert max(outcome["grown_mib"] for outcome in outcomes.values()) < MAX_GROWTH_MIB, outcomes


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_the_bound_is_an_option(
    stage: Stage, wild: RecordedServer, api: str, streams: bool
) -> None:
    text = "word " * 4000
    pieces = [text[start : start + 50] for start in range(0, len(text), 50)]
    wild.answers(stream(events(api, pieces)) if streams else Recorded.of_json(answer(api, text)))
    async with stage.worker():
        run = await stage.start(asking(wild, api), stream=streams, max_answer_bytes=10_000)
        with pytest.raises(
            ExecuteError, match=r"more than 10,000 bytes, which RunOptions\.max_answer_bytes"
        ) as caught:
            await run.result()
        assert caught.value.reason == "invalid_response"
        assert len(wild.received) == RunOptions().max_llm_retries
        run = await stage.start(asking(wild, api), stream=streams, max_answer_bytes=30_000)
        assert (await run.result()).output == text


def test_the_default() -> None:
    assert RunOptions().max_answer_bytes == 16 * 1024 * 1024
