"""A conversation moves from any server to any other and back: each gets it as it takes it (the
torture table).

The conversation has what is reported to break such moves: parallel calls whose ids are long, odd or
the same, an image in a result, a call of a tool that is not there with arguments that are not JSON,
thinking, no message of the user.
"""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.agents import Agent
from perdure.messages import ImagePart, Message, TextPart, ToolCall, ToolResult
from perdure.providers import provider_for
from perdure.providers.outgoing import with_unique_ids
from perdure.providers.wire_format import WireFormat

from ..support.wire_agents import CHAT, agent
from .servers import SERVERS
from .servers.strict import Json, StrictServer

LONG = "a_tool_whose_name_is_longer_than_any_server_takes_" + "x" * 40
TOOLS = [
    {"name": "look", "kind": "function", "parameters": [{"name": "at", "kind": "string"}]},
    {"name": "files.read it!", "kind": "function", "parameters": []},
    {"name": LONG, "kind": "function", "parameters": []},
]
PNG = "data:image/png;base64,iVBORw0KGgo="
IMAGE = ToolResult(parts=[TextPart(value="See:"), ImagePart(source=PNG)], status="success")
PAIRS = list(permutations(SERVERS, 2))


class Move:
    """One conversation that several servers write in turn."""

    def __init__(self, *, begins_with_user: bool) -> None:
        self.messages = [Message.system("Look.")]
        if begins_with_user:
            self.messages.append(Message.user("What is there?"))

    def ask(
        self, server: StrictServer, agent: Agent, *calls: tuple[str, str], text: str = ""
    ) -> list[str]:
        """Call the server, have it ask for the calls, and answer them; returns what it refuses of
        the request.
        """
        provider = provider_for(agent)
        assert isinstance(provider, WireFormat)
        body = provider.for_call(agent, provider.to_request(agent, self.messages))
        problems = server.problems(json.loads(json.dumps(body)))
        names = dict(zip((tool["name"] for tool in TOOLS), server.offered(body), strict=True))
        response = server.reply(
            [(names.get(name, name), arguments) for name, arguments in calls], text
        )
        reply = with_unique_ids(provider.reply(agent, response).message, self.messages)
        assert [call.name for call in reply.tool_calls] == [name for name, _ in calls], (
            "tools have their own names here"
        )
        self.messages.append(Message.model_validate_json(reply.model_dump_json()))
        for number, call in enumerate(reply.tool_calls):
            self.messages.append(
                Message.tool(call, ToolResult.of_text("Done.") if number else IMAGE)
            )
        return problems


@pytest.mark.parametrize("first", SERVERS, ids=lambda server: server.__name__.lower())
def test_a_conversation_moves_to_any_other_server_and_back(first: type[StrictServer]) -> None:
    wrong: list[str] = []
    for number, second in enumerate(each for each in SERVERS if each is not first):
        begins_with_user = (number + SERVERS.index(first)) % 2 == 0
        wrong += [
            f"{second.__name__}, {number}: {problem}"
            for problem in moved(first(), second(), begins_with_user)
        ]
    assert not wrong


def moved(one: StrictServer, other: StrictServer, begins_with_user: bool) -> list[str]:
    move = Move(begins_with_user=begins_with_user)
    here, there = one.agent(tools=TOOLS), other.agent(tools=TOOLS)
    return [
        *move.ask(one, here, ("look", '{"at":"a"}'), ("files.read it!", "{}"), text="Hm."),
        *move.ask(one, here, ("look", '{"at":"a"}'), ("made.up/name", "{}"), (LONG, "")),
        *move.ask(other, there, ("look", '{"at":"b"}'), ("look", '{"at":'), (LONG, "[1]")),
        *move.ask(other, there, text="Nearly."),
        *move.ask(one, here, ("look", '{"at":"c"}')),
        *move.ask(other, there, ("look", '{"at":"d"}')),
        *move.ask(one, here, text="Done."),
    ]


def test_the_table_has_all_pairs() -> None:
    assert len(PAIRS) >= 380


def test_what_each_server_gets_of_an_image() -> None:
    """It sees the image behind the results, or in them; one that takes texts alone is told of it in
    words.
    """
    for server in (each() for each in SERVERS):
        move, agent = Move(begins_with_user=True), server.agent(tools=TOOLS)
        move.ask(server, agent, ("look", "{}"), ("look", "{}"))
        sent = json.dumps(provider_for(agent).to_request(agent, move.messages))
        assert ("iVBORw0KGgo" in sent) == server.sees, server.name
        assert server.sees or "only accepts text" in sent, server.name


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.__name__.lower())
def test_each_fake_refuses_what_breaks_one_of_its_rules(server: type[StrictServer]) -> None:
    """The table would be worthless if a strict server took anything."""
    one = server()
    agent, move = one.agent(tools=TOOLS), Move(begins_with_user=True)
    move.ask(one, agent, ("look", "{}"), ("files.read it!", "{}"))
    provider = provider_for(agent)
    assert isinstance(provider, WireFormat)
    body = json.loads(
        json.dumps(provider.for_call(agent, provider.to_request(agent, move.messages)))
    )
    assert one.problems(body) == []
    for fault, spoilt in faults(one, body).items():
        assert one.problems(spoilt), f"{one.name} takes a request with a fault: {fault}"


def faults(server: StrictServer, body: Json) -> dict[str, Json]:
    """Return the request with one fault each, of those that the server is to refuse."""
    text = json.dumps(body)
    made = {f"the key {key}": {**body, key: 1} for key in server.refuses}
    made["ids of another form"] = _changed(
        body, lambda call: call.update(id="|" * 99, call_id="|" * 99)
    )
    made["one id for two calls"] = json.loads(
        text.replace(server.ids_in(body)[1], server.ids_in(body)[0])
    )
    made["arguments that are not JSON"] = _changed(body, _without_arguments)
    made["a field of another server"] = json.loads(text.replace("Look.", "private of somebody 0"))
    made["a tool's name"] = json.loads(text.replace('"look"', '"look at"'))
    made["a schema"] = json.loads(text.replace('"type": "object"', '"anyOf": []'))
    made["no result"] = _without_last_result(body)
    if server.given[0].mark and server.wants_back != "never":
        made["its own field lost"] = json.loads(text.replace("private of", "nothing of"))
    if server.begins_with_user:
        made["no user"] = json.loads(text.replace('"role": "user"', '"role": "assistant"', 1))
    if not server.sees:
        made["an image"] = json.loads(
            text.replace('"What is there?"', '[{"type": "image_url", "image_url": {}}]')
        )
    for key in (*getattr(server, "needs", ()), *getattr(server, "needs_beside", ())):
        made[f"no {key}"] = json.loads(text.replace(f'"{key}"', '"name"'))
    return made


def _without_last_result(body: Json) -> Json:
    key = "messages" if "messages" in body else "input"
    turns = [turn for turn in body[key] if "Done." not in json.dumps(turn)]
    return {**body, key: turns}


def _without_arguments(call: Json) -> None:
    call.get("function", call)["arguments"] = "{"
    call["input"] = "{"


def _changed(body: Json, change: Any) -> Json:
    copy: Json = json.loads(json.dumps(body))
    for message in copy.get("messages", copy.get("input")):
        content = message.get("content") if isinstance(message.get("content"), list) else []
        for call in [message, *message.get("tool_calls", []), *content]:
            if call.get("type") in ("function", "function_call", "tool_use"):
                change(call)
    return copy


def test_results_of_calls_with_one_id_go_to_one_call_each() -> None:
    call = ToolCall(id="same", name="look", arguments="{}", fault="Error: cut off")
    results = [Message.tool(call, ToolResult.of_text(text)) for text in ("one", "two")]
    calls = agent(CHAT, tools=TOOLS)
    asked, *answered = provider_for(calls).to_request(
        calls, [Message.user("Look."), Message.assistant("", [call, call]), *results]
    )["messages"][1:]
    ids = [each["id"] for each in asked["tool_calls"]]
    assert len(set(ids)) == 2
    assert [(each["tool_call_id"], each["content"]) for each in answered] == [
        (ids[0], "one"),
        (ids[1], "two"),
    ]
    assert "fault" not in asked["tool_calls"][0], "no server knows this field"


CALLS = st.tuples(
    st.sampled_from(["look", "files.read it!", "made.up/name", LONG]),
    st.sampled_from(['{"at":"a"}', "{}", "", '{"at":', "[1]"]),
)
STEPS = st.tuples(st.integers(0, 2), st.lists(CALLS, max_size=3), st.sampled_from(["", "Hm."]))


@given(
    st.lists(st.sampled_from(SERVERS), min_size=3, max_size=3, unique=True),
    st.lists(STEPS, max_size=6),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_random_conversations_over_three_servers(
    kinds: list[type[StrictServer]],
    steps: list[tuple[int, list[tuple[str, str]], str]],
    begins_with_user: bool,
) -> None:
    move, servers = Move(begins_with_user=begins_with_user), [kind() for kind in kinds]
    for place, calls, text in steps:
        server = servers[place]
        said = text if calls else "Well."
        wrong = move.ask(server, server.agent(tools=TOOLS), *calls, text=said)
        assert not wrong, (server.name, wrong)
