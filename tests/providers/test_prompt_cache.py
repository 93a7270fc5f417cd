"""What requests tell the prompt caches of providers, and servers that want to hear nothing of
it.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.messages import Message, ToolCall, ToolResult
from perdure.providers.base import CallSeries, ModelCallOptions
from perdure.providers.registry import provider_for
from perdure.providers.sdk_call import encode
from perdure.providers.wire_format import WireFormat

from ..support.recorded_server import Recorded, RecordedServer
from ..support.wire_agents import ANTHROPIC, CHAT, RESPONSES, agent

Api = tuple[str, str]
SAID = {"content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
SERIES = CallSeries("key", goes_on=True)
MARK = {"type": "ephemeral"}
TOOLS = [
    {"name": name, "kind": "function", "parameters": [{"name": "x", "kind": "string"}]}
    for name in ("a", "b")
]


def rounds(count: int, calls: int = 1) -> list[Message]:
    """A conversation in which tools were called so often, each time so many of them."""
    messages = [Message.system("Be brief."), Message.user("Go on.")]
    for number in range(count):
        asked = [
            ToolCall(id=f"{number}-{index}", name="a", arguments="{}") for index in range(calls)
        ]
        messages += [
            Message.assistant("", asked),
            *(Message.tool(call, ToolResult.of_text("Seen.")) for call in asked),
        ]
    return messages


def asked(
    api: Api,
    *,
    prompt_cache: str | None = None,
    model: str = "m",
    options: JsonObject | None = None,
    **more: Any,
) -> Agent:
    found = agent(
        api, tools=TOOLS, options={**(options or {}), "promptCache": prompt_cache}, **more
    )
    assert found.model is not None
    return found.model_copy(update={"model": found.model.model_copy(update={"id": model})})


def cached(
    given: Agent,
    messages: list[Message],
    *,
    series: CallSeries = SERIES,
    is_own: bool = True,
    **more: Any,
) -> JsonObject:
    provider = provider_for(given)
    assert isinstance(provider, WireFormat)
    request = provider.to_request(given, messages, **more)
    before = encode(request)
    options = given.model.options if given.model else None
    found = provider.for_cache(request, options and options.prompt_cache, series, is_own=is_own)
    assert encode(request) == before, "what is kept of the conversation is not changed"
    return found


def marks(request: JsonObject) -> list[tuple[Any, ...]]:
    """Where the marks of Anthropic's stand."""
    system = request.get("system")
    found: list[tuple[Any, ...]] = []
    for name, blocks in (
        ("tools", request.get("tools") or ()),
        ("system", system if isinstance(system, list) else ()),
    ):
        found += [(name, index) for index, block in enumerate(blocks) if "cache_control" in block]
    for number, turn in enumerate(request["messages"]):
        found += [
            ("messages", number, index)
            for index, block in enumerate(turn["content"])
            if "cache_control" in block
        ]
    return found


def test_anthropics_marks_stand_after_tools_and_system_and_where_requests_end() -> None:
    request = cached(asked(ANTHROPIC), rounds(3, calls=30))
    assert marks(request) == [("tools", 1), ("system", 0), ("messages", 4, 29), ("messages", 6, 29)]
    assert request["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    before = cached(asked(ANTHROPIC), rounds(2, calls=30))
    assert marks(before)[-1] == marks(request)[-2], (
        "what the last request has written is found by its own mark"
    )


@pytest.mark.parametrize(
    ("chosen", "mark"), [("1h", {**MARK, "ttl": "1h"}), ("5m", MARK), (None, MARK)]
)
def test_how_long_it_is_kept(chosen: str | None, mark: dict[str, str]) -> None:
    request = cached(asked(ANTHROPIC, prompt_cache=chosen), rounds(1))
    assert (
        request["tools"][-1]["cache_control"]
        == request["messages"][-1]["content"][-1]["cache_control"]
        == mark
    )


def test_when_nothing_is_marked() -> None:
    assert not marks(cached(asked(ANTHROPIC, prompt_cache="off"), rounds(1)))
    alone = CallSeries("key", goes_on=False)
    assert not marks(cached(asked(ANTHROPIC), rounds(1), series=alone))
    assert marks(cached(asked(ANTHROPIC, prompt_cache="5m"), rounds(1), series=alone)) == [
        ("tools", 1),
        ("system", 0),
    ]


OWN = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def of_the_file(own: str) -> tuple[Agent, list[Message]]:
    """An agent, and its conversation, of which one thing is marked in its own way."""
    messages = rounds(1)
    if own == "request":
        return asked(ANTHROPIC, options={"additionalProperties": OWN}), messages
    if own == "tool":
        return asked(
            ANTHROPIC, options={"additionalProperties": {"tools": [{"name": "c", **OWN}]}}
        ), messages
    role = "system" if own == "system" else "user"
    part = {"kind": "text", "value": "Long.", **OWN}
    mine = Message.model_validate(
        {"role": role, "parts": [part, {"kind": "text", "value": "Short."}]}
    )
    return asked(ANTHROPIC), [mine, *messages]


@pytest.mark.parametrize("own", ["request", "tool", "system", "part"])
def test_the_marks_of_the_agent_itself_are_the_only_ones(own: str) -> None:
    request = cached(*of_the_file(own))
    assert str(request).count("cache_control") == 1
    assert str(request).count("'ttl': '1h'") == 1


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_which_servers_get_the_key_of_the_series(api: Api) -> None:
    assert cached(asked(api), rounds(2))["prompt_cache_key"] == "key"
    assert "prompt_cache" not in str(cached(asked(api), rounds(1), is_own=False))
    chosen = cached(asked(api, prompt_cache="1h"), rounds(1), is_own=False)
    assert chosen["prompt_cache_key"] == "key"
    assert "prompt_cache" not in str(cached(asked(api, prompt_cache="off"), rounds(1)))


def test_the_key_of_the_file_stays() -> None:
    own = {"prompt_cache_key": "mine"}
    request = cached(asked(CHAT, options={"additionalProperties": own}), rounds(1))
    assert request["prompt_cache_key"] == "mine"


OF_ANTHROPIC = {
    "error": {"message": "tools.1.cache_control: Extra inputs are not permitted", "type": "x"}
}
OF_FASTAPI = {
    "detail": [{"loc": ["body", "cache_control"], "msg": "Extra inputs are not permitted"}]
}


@pytest.mark.parametrize("refusal", [OF_ANTHROPIC, OF_FASTAPI])
async def test_a_server_that_refuses_marks_is_sent_none_from_then_on(
    refusal: JsonObject, recorded: RecordedServer
) -> None:
    model = next(iter(refusal))
    given = asked(
        ANTHROPIC, model=model, connection={"kind": "key", "endpoint": recorded.url, "apiKey": "k"}
    )
    provider = provider_for(given)
    recorded.answers(Recorded.of_json(refusal, status=422), Recorded.of_json(SAID))
    for _ in range(2):
        await provider.call(
            given, provider.to_request(given, rounds(1)), ModelCallOptions(5, series=SERIES)
        )
    assert [len(marks(received.body)) for received in recorded.received] == [4, 0, 0]
