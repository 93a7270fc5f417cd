"""Secrets are planted wherever they may come from; none of them reaches a history, an event, a
message or a log.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from temporalio import activity
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from perdure.cli.command import JsonFormatter
from perdure.client import RunHandle, start_run
from perdure.errors import ConfigurationError, RunError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject, JsonView
from perdure.messages import Message, TextPart, ToolResult
from perdure.prompty.load import load_dict
from perdure.providers import clear_connections, register_connection
from perdure.redaction import redactor
from perdure.testing import asks, call, says
from perdure.tools.context import ToolContext

from ..support.agents import QUESTION, Scripted, scripted_agent, tool_texts
from ..support.canaries import AGENTS, ANSWERS, CANARY, LEAKS, VARIABLES, env
from ..support.recorded import compressed_payloads, everything_said
from ..support.stage import Stage

KEY = "${env:MY_OWN_NAME}"
TOOL: JsonView = {
    "name": "leak",
    "kind": "function",
    "parameters": [{"name": "text", "kind": "string"}],
}
OTHER: JsonView = {
    "name": "other",
    "kind": "own",
    "options": {"region": "${env:PLANTED_ENDPOINT_NAME}"},
}


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    register_connection("planted", openai.AsyncOpenAI(api_key=f"{CANARY}-of-a-client"))
    yield
    clear_connections()


@pytest.fixture
def logged() -> Iterator[Callable[[], str]]:
    """Everything that perdure logs, in the form for people and in that for programs."""
    streams = [io.StringIO(), io.StringIO()]
    handlers = [logging.StreamHandler(stream) for stream in streams]
    handlers[1].setFormatter(JsonFormatter())
    logger = logging.getLogger("perdure")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    for handler in handlers:
        logger.addHandler(handler)
    yield lambda: "".join(stream.getvalue() for stream in streams)
    for handler in handlers:
        logger.removeHandler(handler)
    logger.setLevel(level)


async def ended_and_said(run: RunHandle, stage: Stage) -> str:
    """What `everything_said` gives, once the run has ended."""
    with contextlib.suppress(RunError):
        await run.result()
    return await everything_said(stage.client, run)


@pytest.mark.parametrize("place", AGENTS)
async def test_a_literal_stops_the_start(stage: Stage, place: str) -> None:
    agent = load_dict({"name": "planted", **AGENTS[place]}, defer_environment=True)
    with pytest.raises(ConfigurationError, match="which every run would record: write") as refusal:
        await start_run(stage.client, agent, messages=list(QUESTION), task_queue=stage.task_queue)
    assert CANARY not in str(refusal.value)


async def test_what_a_tool_says(
    stage: Stage, scripted: Scripted, logged: Callable[[], str]
) -> None:
    calls = [call("leak", f"call_{number}", text=place) for number, place in enumerate(LEAKS)]
    model = scripted([asks(*calls), says("done")])
    agent = scripted_agent(model, [TOOL, OTHER], api_key=KEY)
    async with stage.worker({"leak": lambda text: LEAKS[text](), "other": lambda: ""}):
        run = await stage.start(agent)
        await run.result()
    assert len(model.requests) == 2
    results = tool_texts(await run.messages())
    assert len(results) == len(LEAKS)
    expected = {
        "a text": "it is ${env:PLANTED_API_KEY}!",
        "a lower-case variable": "${env:planted_token}",
        "a map": '{"found":{"deep":["${env:PLANTED_DB_PASSWORD}"]}}',
        "escaped in JSON": '{"it": "${env:PLANTED_CLIENT_SECRET}"}',
        "an error": "Error: Tool 'leak' failed: RuntimeError: ${env:PLANTED_API_KEY}",
        "a reference of the agent": KEY,
        "a registered client": "[key of connection 'planted']",
    }
    assert {
        place: text for place, text in zip(LEAKS, results, strict=True) if place in expected
    } == expected
    leaked = [text for text in results if CANARY in text]
    assert leaked == []
    assert CANARY not in await ended_and_said(run, stage)
    assert "raised RuntimeError: ${env:PLANTED_API_KEY}" in logged()
    assert CANARY not in logged()


@pytest.mark.parametrize("place", ANSWERS)
async def test_what_a_provider_answers(
    stage: Stage, scripted: Scripted, logged: Callable[[], str], place: str
) -> None:
    model = scripted([ANSWERS[place]()])
    async with stage.worker():
        run = await stage.start(scripted_agent(model, api_key=KEY))
        said = await ended_and_said(run, stage)
    assert "LLM call failed" in said or "retrying" in said
    assert CANARY not in said
    assert CANARY not in logged()


def _denies(*subject: Any) -> GuardrailResult:
    return GuardrailResult(allowed=False, reason=f"it has {env('PLANTED_API_KEY')}")


def _fails(*subject: Any) -> GuardrailResult:
    raise LookupError(env("PLANTED_CLIENT_SECRET"))


async def _fails_later(*subject: Any) -> GuardrailResult:
    raise LookupError(env("planted_token"))


GUARDRAILS: dict[str, Guardrails] = {
    "input denies": Guardrails(input=_denies),
    "input fails": Guardrails(input=_fails),
    "input fails later": Guardrails(input=_fails_later),
    "input rewrites": Guardrails(
        input=lambda messages: GuardrailResult(
            allowed=True, rewrite=[Message.user(env("PLANTED_API_KEY"))]
        )
    ),
    "output denies": Guardrails(output=_denies),
    "output fails": Guardrails(output=_fails),
    "output rewrites": Guardrails(
        output=lambda message: GuardrailResult(allowed=True, rewrite=env("PLANTED_DB_PASSWORD"))
    ),
    "tool denies": Guardrails(tool=_denies),
    "tool fails": Guardrails(tool=_fails_later),
    "tool rewrites": Guardrails(
        tool=lambda name, arguments: GuardrailResult(
            allowed=True, rewrite={"text": env("PLANTED_API_KEY")}
        )
    ),
}


async def test_what_a_guardrail_says(
    stage: Stage, scripted: Scripted, logged: Callable[[], str]
) -> None:
    model = scripted([asks("leak", text="a text"), says("done")])
    async with stage.worker({"leak": lambda text: text}, guardrails=GUARDRAILS):
        runs = [
            await stage.start(scripted_agent(model, [TOOL]), guardrails=name) for name in GUARDRAILS
        ]
        for run in runs:
            assert CANARY not in await ended_and_said(run, stage)
    assert CANARY not in logged()


async def test_what_a_compactor_says(
    stage: Stage, scripted: Scripted, logged: Callable[[], str]
) -> None:
    def summarise(messages: list[Message]) -> str:
        return f"They said {env('PLANTED_API_KEY')}"

    def broken(messages: list[Message]) -> str:
        raise LookupError(env("PLANTED_API_KEY"))

    long = [Message.system("S"), *[Message.user("x" * 400) for _ in range(6)]]
    async with stage.worker(compactors={"summarise": summarise, "broken": broken}):
        for name in ("summarise", "broken"):
            model = scripted([says("ok")])
            run = await stage.start(
                scripted_agent(model), long, context_budget=1000, compactor=name
            )
            assert CANARY not in await ended_and_said(run, stage)
    assert CANARY not in logged()


async def test_what_a_caller_sends(stage: Stage, scripted: Scripted) -> None:
    """Prompts, bound inputs, texts of the agent, steering, and the reason of a cancellation."""
    model = scripted([asks("leak"), says("done")])
    agent = load_dict(
        {
            **scripted_agent(model).model_dump(mode="json", by_alias=True, exclude_none=True),
            "description": f"uses {env('PLANTED_API_KEY')}",
            "metadata": {"password": CANARY, "note": env("PLANTED_API_KEY")},
            "inputs": {
                "key": {"kind": "string", "default": env("planted_token")},
                "other": {"kind": "string"},
            },
            "tools": [{**TOOL, "bindings": {"text": {"input": "key"}}}],
            "instructions": "system:\nYour key is {{ key }}.\n\nuser:\n{{ other }}",
        }
    )
    async with stage.worker({"leak": lambda text: f"called with {text}"}):
        inputs = {"other": env("PLANTED_DB_PASSWORD")}
        run = await start_run(stage.client, agent, inputs, task_queue=stage.task_queue)
        stage.runs.append(run)
        await run.steer(f"use {env('PLANTED_API_KEY')}")
        await run.cancel(f"leaked {env('PLANTED_API_KEY')}")
        said = await ended_and_said(run, stage)
    assert "Your key is ${env:planted_token}." in said
    assert CANARY not in said


@dataclass
class Progress:
    """What a tool says of itself, in a form that only a payload converter writes."""

    note: str


BEATS: Mapping[str, Callable[[ToolContext], None]] = {
    "the context": lambda context: context.heartbeat(f"working with {env('PLANTED_API_KEY')}"),
    "the SDK": lambda context: activity.heartbeat({"key": [env("PLANTED_CLIENT_SECRET")]}),
    "an object": lambda context: context.heartbeat(1, Progress(env("planted_token"))),
}


@pytest.mark.parametrize("place", BEATS)
async def test_what_a_tool_tells_by_heartbeat(stage: Stage, scripted: Scripted, place: str) -> None:
    model, done = scripted([asks("leak", text="a"), says("done")]), asyncio.Event()

    async def leak(text: str, context: ToolContext) -> str:
        BEATS[place](context)
        await done.wait()
        return text

    async with stage.worker({"leak": leak}):
        run = await stage.start(scripted_agent(model, [TOOL]))
        while b"${env:" not in (told := await _told_by_heartbeat(stage, run.id)):
            assert CANARY.encode() not in told
            await asyncio.sleep(0.05)
        assert CANARY.encode() not in told
        done.set()
        assert CANARY not in await ended_and_said(run, stage)


async def _told_by_heartbeat(stage: Stage, run_id: str) -> bytes:
    description = await stage.client.get_workflow_handle(run_id).describe()
    pending = description.raw_description.pending_activities
    parts = [payload.data for attempt in pending for payload in attempt.heartbeat_details.payloads]
    return b"".join(
        [*parts, *(payload.data for attempt in pending for payload in compressed_payloads(attempt))]
    )


async def test_what_a_start_shows(stage: Stage, scripted: Scripted) -> None:
    """The memo, and what the Temporal UI shows of the agent, are told without secrets."""
    agent = scripted_agent(scripted([says("done")]), api_key=KEY)
    agent.description = (
        f"It uses {env('PLANTED_API_KEY')}, {env('MY_OWN_NAME')} and sk-{CANARY}-of-nobody."
    )
    memo = {
        "note": [env("PLANTED_API_KEY")],
        "object": Progress(env("PLANTED_DB_PASSWORD")),
        "number": 1,
    }
    async with stage.worker():
        run = await start_run(
            stage.client, agent, messages=list(QUESTION), task_queue=stage.task_queue, memo=memo
        )
        stage.runs.append(run)
        said = await ended_and_said(run, stage)
    described = await stage.client.get_workflow_handle(run.id).describe()
    shown = await described.memo()
    assert [shown[name] for name in memo] == [
        ["${env:PLANTED_API_KEY}"],
        {"note": "${env:PLANTED_DB_PASSWORD}"},
        1,
    ]
    assert "It uses ${env:PLANTED_API_KEY}" in (await described.static_details() or "")
    assert CANARY not in said


NAMES: Mapping[str, Callable[[str], JsonObject]] = {
    "id": lambda secret: {"id": f"run-{secret}"},
    "task_queue": lambda secret: {"task_queue": secret},
    "tenant": lambda secret: {"tenant": secret},
    "search_attributes['Own']": lambda secret: {
        "search_attributes": TypedSearchAttributes(
            [SearchAttributePair(SearchAttributeKey.for_keyword_list("Own"), ["a", secret])]
        )
    },
}
"""What a run is found by: there, a replaced text would not be found."""


@pytest.mark.parametrize("place", NAMES)
async def test_a_secret_in_a_name_stops_the_start(stage: Stage, place: str) -> None:
    agent = load_dict({"name": "planted"})
    start = {"task_queue": stage.task_queue, **NAMES[place](env("PLANTED_API_KEY"))}
    with pytest.raises(
        ConfigurationError, match=r"contains a secret, .*\$\{env:PLANTED_API_KEY\}"
    ) as refusal:
        await start_run(stage.client, agent, messages=list(QUESTION), **start)
    assert str(refusal.value).startswith(place)
    assert CANARY not in str(refusal.value)


def test_data_stays_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short values are words of the data, and data without secrets is handed on as it is, within
    microseconds.
    """
    monkeypatch.setenv("SHORT_TOKEN", "production")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    result = ToolResult(parts=[TextPart(value="false: the production has a tokenizer " * 100)])
    assert redactor().value(result) is result
    started = time.perf_counter()
    for _ in range(100):
        redactor().value(result)
    assert (time.perf_counter() - started) / 100 < 0.002
