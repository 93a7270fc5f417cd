"""What Open WebUI and LibreChat send, played back: no ghost is a run, each chat is one session,
stop ends no run.

The requests in `recorded` were written by what the programs' own code sends; `CHAT` stands for the
chat's id.
"""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from perdure.json_types import JsonObject
from perdure.testing import says

from ..support.agents import Scripted, scripted_agent
from .conftest import Serve

RECORDED = Path(__file__).parent / "recorded"
ANSWERS = ("324 metres.", "1,063 feet.", "Three [1].")


def recorded(name: str, chat: str) -> list[JsonObject]:
    requests: list[JsonObject] = json.loads(
        (RECORDED / f"{name}.json").read_text().replace("CHAT", chat)
    )
    return requests


def text_of(answer: httpx2.Response) -> str:
    """What the front end shows, of a stream or a whole answer."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        text: str = answer.json()["choices"][0]["message"]["content"]
        return text
    assert answer.text.endswith("data: [DONE]\n\n")
    data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    chunks = [each for each in map(json.loads, data) if each.get("choices")]
    assert not any(each["choices"][0]["delta"].get("tool_calls") for each in chunks)
    return "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks)


@pytest.mark.parametrize("name", ["open_webui", "librechat"])
async def test_a_recorded_chat(name: str, scripted: Scripted, serve_agents: Serve) -> None:
    left = list(ANSWERS)
    model = scripted(lambda request: says(left.pop(0)))
    async with (
        serve_agents(scripted_agent(model)) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as http,
    ):
        chat, asked, turns = served.gateway.task_queue, 0, 0
        for request in recorded(name, chat):
            answer = await http.post(
                "/v1/chat/completions", json=request["body"], headers=request["headers"]
            )
            assert answer.status_code == 200, request["what"]
            assert text_of(answer) == request["answer"], request["what"]
            is_new = not request.get("ghost") and not request.get("again")
            asked += is_new
            assert len(model.requests) == asked, request["what"]
            run = answer.headers.get("x-perdure-run", "")
            assert bool(run) is not request.get("ghost", False), request["what"]
            if not request.get("ghost"):
                turns += is_new and not request.get("alone", False)
                assert run.startswith(f"{chat}/{turns}") is not request.get("alone", False), (
                    request["what"]
                )
        assert not left


async def test_a_turn_with_a_file_is_a_turn_and_so_are_those_after_it(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([says("Three."), says("Stone."), says("1889."), says("Who knows?")])
    async with (
        serve_agents(scripted_agent(model)) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as http,
    ):
        with_file = recorded("open_webui", served.gateway.task_queue)[-1]
        file, _, first = with_file["body"]["messages"][0]["content"].rpartition("\n")
        said, runs = list[dict[str, str]](), []
        for asked, answer in ((first, "Three."), ("Of what?", "Stone."), ("Since when?", "1889.")):
            # The history has what the person wrote; only the last message has what was found in the
            # file.
            said.append({"role": "user", "content": asked})
            sent = [*said[:-1], {"role": "user", "content": f"{file}\n{asked}"}]
            body = {"model": "tested", "stream": False, "messages": sent}
            headers = {"X-OpenWebUI-Chat-Id": f"{served.gateway.task_queue}-f"}
            answered = await http.post("/v1/chat/completions", json=body, headers=headers)
            assert text_of(answered) == answer
            runs.append(answered.headers["x-perdure-run"])
            said.append({"role": "assistant", "content": answer})
        assert runs == [f"{served.gateway.task_queue}-f/{number}" for number in (1, 2, 3)]


async def test_a_chat_that_is_stopped_goes_on_and_is_joined(
    scripted: Scripted, serve_agents: Serve
) -> None:
    words = " ".join(f"word{number}" for number in range(30))
    model = scripted([says(words, chunk_delay=0.03), says("Later.")])
    async with (
        serve_agents(scripted_agent(model)) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as http,
    ):
        first = recorded("open_webui", served.gateway.task_queue)[0]
        async with http.stream(
            "POST", "/v1/chat/completions", json=first["body"], headers=first["headers"]
        ) as seen:
            async for line in seen.aiter_lines():
                if "word2" in line:
                    break  # Stop, in the front end: the connection is closed.
        again = await http.post(
            "/v1/chat/completions", json=first["body"], headers=first["headers"]
        )
        assert text_of(again) == words
        assert again.headers["x-perdure-run"] == seen.headers["x-perdure-run"]
        said = [*first["body"]["messages"], {"role": "assistant", "content": "word0 word1"}]
        said += [{"role": "user", "content": "And now?"}]
        headers = {**first["headers"], "X-Perdure-Message": f"{served.gateway.task_queue}-m2"}
        later = await http.post(
            "/v1/chat/completions",
            json={**first["body"], "messages": said, "stream": False},
            headers=headers,
        )
        assert text_of(later) == "Later."
        assert later.headers["x-perdure-run"].endswith("/2")
        assert len(model.requests) == 2
