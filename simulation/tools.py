"""The tools, guardrails and the model of simulated agents. They note in a diary what they do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure.agents import Agent
from perdure.errors import ModelError, ModelErrorKind
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject, JsonView
from perdure.messages import Message
from perdure.providers import registry
from perdure.providers.base import ModelCallOptions
from perdure.providers.openai_chat import OpenAIChat
from perdure.tools import ToolContext, tool

if TYPE_CHECKING:
    from .execution import Process

current: ContextVar[Process] = ContextVar("current")
"""The process that executes the running activity."""


@dataclass(slots=True)
class Entry:
    """One execution of a tool, or one model call."""

    name: str
    run: str
    call_id: str
    arguments: str
    begun: float
    worker: str
    done: float | None = None
    """When it took effect; None if it did not come to that."""
    key: str = ""
    may_repeat: bool = False


async def _perform(name: str, text: str, context: ToolContext) -> Entry:
    process = current.get()
    world = process.world
    entry = Entry(
        name,
        context.run_id,
        context.call_id,
        text,
        world.now(),
        process.worker.name,
        key=context.idempotency_key,
        may_repeat=context.may_repeat,
    )
    world.diary.append(entry)
    world.trace(f"{process.worker.name}: tool {name}({text!r}) of {context.call_id} begins")
    await asyncio.sleep(world.chance.delay("tool"))
    await process.go_on()
    entry.done = world.now()
    world.trace(f"{process.worker.name}: tool {name}({text!r}) of {context.call_id} has its effect")
    await asyncio.sleep(world.chance.delay("tool"))
    await process.go_on()
    return entry


async def look(text: str, context: ToolContext) -> str:
    await _perform("look", text, context)
    return f"seen {text}"


@tool(idempotent=False)
async def pay(text: str, context: ToolContext) -> str:
    """Pay."""
    await _perform("pay", text, context)
    return f"paid {text}"


@tool(needs_approval=True)
async def risky(text: str, context: ToolContext) -> str:
    """Do something that a person must agree to."""
    await _perform("risky", text, context)
    return f"dared {text}"


async def broken(text: str, context: ToolContext) -> str:
    await _perform("broken", text, context)
    raise ValueError(f"no {text}")


@tool(local=True)
async def near(text: str, context: ToolContext) -> str:
    """Execute in the workflow's own task."""
    entry = Entry("near", context.run_id, context.call_id, text, 0.0, "")
    entry.begun = entry.done = current.get().world.now()
    current.get().world.diary.append(entry)
    return f"near {text}"


@tool(parallel_safe=False)
async def alone(text: str, context: ToolContext) -> str:
    """Execute while no other call of the reply runs."""
    await _perform("alone", text, context)
    return f"alone {text}"


TOOLS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (look, pay, risky, broken, near, alone)
}


def _deny_even(name: str, arguments: JsonObject) -> GuardrailResult:
    return GuardrailResult(allowed=not str(arguments.get("text")).endswith(".2"), reason="third")


async def _allow_later(name: str, arguments: JsonObject) -> GuardrailResult:
    await asyncio.sleep(0.01)
    return _deny_even(name, arguments)


async def _allow_input(messages: list[Message]) -> GuardrailResult:
    await asyncio.sleep(0.01)
    return GuardrailResult(allowed=True)


GUARDRAILS = {
    "plain": Guardrails(
        input=lambda messages: GuardrailResult(allowed=True),
        output=lambda message: GuardrailResult(allowed=True),
        tool=_deny_even,
    ),
    "async": Guardrails(input=_allow_input, tool=_allow_later),
}


MODEL_ERRORS: list[ModelErrorKind] = ["rate_limit", "overloaded", "server", "connection"]


class SimulatedChat(OpenAIChat):
    """OpenAI's wire format, answered by the scene's plan."""

    async def call(self, agent: Agent, request: JsonView, options: ModelCallOptions) -> JsonObject:
        process = current.get()
        world = process.world
        world.on_model_call(process, request)
        await asyncio.sleep(world.chance.delay("model"))
        await process.go_on()
        if world.chance.happens(world.scene.model_errors):
            kind = world.chance.choice(MODEL_ERRORS)
            world.trace(f"{process.worker.name}: the model fails: {kind}")
            raise ModelError(f"no: {kind}", kind=kind, provider=self.key, retry_after=0.5)
        answer = planned(world.scene.plan, request)
        for call in answer["choices"][0]["message"].get("tool_calls") or ():
            function = call["function"]
            world.scene.calls[call["id"]] = function["name"], function["arguments"]
        world.answered += 1
        return answer


def planned(plan: list[list[tuple[str, str]]], request: JsonView) -> JsonObject:
    """Return the answer of the plan to a conversation: its step is the count of earlier answers."""
    step = sum(message["role"] == "assistant" for message in request["messages"])
    calls = plan[step] if step < len(plan) and request.get("tools") else []
    message: JsonObject = {"role": "assistant", "content": None if calls else f"answer {step}"}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"c{text}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps({"text": text})},
            }
            for name, text in calls
        ]
    reason = "tool_calls" if calls else "stop"
    return {
        "id": f"r{step}",
        "model": "plan",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }


def install_model() -> None:
    """Let perdure find the provider `simulated`, for good."""
    providers: Any = registry.PROVIDERS
    providers["simulated"] = {"chat": f"{__name__}:SimulatedChat"}
