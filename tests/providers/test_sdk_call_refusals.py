"""§8, §18-14: a refusal is the text of an answer, but ends a stream as an error."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import ModelError
from perdure.providers import Delta

from ..support.recorded_server import Recorded, RecordedServer
from ..support.wire_agents import CHAT, RESPONSES
from .test_sdk_call_round_trips import ask

CHAT_REFUSAL = b"""data: {"choices":[{"index":0,"delta":{"content":"Well, "}}]}

data: {"choices":[{"index":0,"delta":{"refusal":"I cannot "}}]}

data: {"choices":[{"index":0,"delta":{"refusal":"help.","content":"x"}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

"""
RESPONSES_REFUSAL = b"""data: {"type":"response.output_text.delta","delta":"Well, "}

data: {"type":"response.refusal.delta","delta":"I cannot "}

data: {"type":"response.refusal.delta","delta":"help."}

data: {"type":"response.completed","response":{"id":"r","output":[]}}

"""


@pytest.mark.parametrize("ending", ["complete", "drop"])
@pytest.mark.parametrize(("api", "stream"), [(CHAT, CHAT_REFUSAL), (RESPONSES, RESPONSES_REFUSAL)])
async def test_a_streamed_refusal(
    api: tuple[str, str], stream: bytes, ending: Any, recorded: RecordedServer
) -> None:
    recorded.answers(Recorded.of_stream(stream, ending=ending))
    deltas: list[Delta] = []
    with pytest.raises(ModelError, match=r"^Model refused: I cannot help\.$") as caught:
        await ask(api, recorded, stream=True, on_delta=deltas.append)
    assert caught.value.kind == "refusal"
    assert deltas == [Delta("text", "Well, ")], (
        "nothing is passed on from the first word of refusal"
    )
