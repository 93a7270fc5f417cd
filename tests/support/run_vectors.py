"""The upstream vectors of whole runs, read and made neutral.

A binding (in process, or the workflow with a model scripted over HTTP) runs each `VectorCase` and
passes what it saw to `check`:

- the agent is `case.agent` plus a model; the model's n-th answer is `case.replies[n]`; tools are
  `case.tools(…)`
- an `Interruption` is a steering message or a cancellation. Those before iteration 1 come before
  the run starts; every other one is due while the tools of the iteration before it run:
  `case.tools` calls `interrupt` with it just then
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.testing.script import ScriptedReply
from perdure.tools.context import ToolContext

from .vector_checks import Outcome, check

__all__ = [
    "Interruption",
    "Outcome",
    "VectorCase",
    "check",
    "load_run_vectors",
    "load_turn_vectors",
]

VECTORS = Path(__file__).parents[3] / "shared" / "prompty" / "vectors.json"


@dataclass(frozen=True)
class Interruption:
    """Something that comes from outside while the agent runs."""

    before_iteration: int
    text: str | None
    """A steering message; None cancels the run."""


Interrupt = Callable[[Interruption], Awaitable[None]]


@dataclass(frozen=True)
class VectorCase:
    """One vector in neutral form."""

    name: str
    operation: str
    """`run` or `runTurn`."""
    agent: JsonObject
    """Everything but the model, as `Agent.model_validate` and `load_dict` take it."""
    messages: list[Message]
    replies: list[ScriptedReply]
    options: RunOptions
    guardrails: Guardrails | None
    interruptions: list[Interruption]
    tool_results: dict[str, str]
    """Call id → text."""
    expected: JsonObject

    def __str__(self) -> str:
        return self.name

    def due_before(self, iteration: int) -> list[Interruption]:
        return [due for due in self.interruptions if due.before_iteration == iteration]

    def tools(self, interrupt: Interrupt) -> dict[str, Callable[..., Awaitable[str]]]:
        """Tool name → function; the functions let the interruptions happen that are due after their
        iteration.
        """

        async def answer(context: ToolContext, **arguments: Any) -> str:
            for due in self.due_before(context.iteration + 1):
                await interrupt(due)
            return self.tool_results[context.call_id]

        return {tool["name"]: answer for tool in self.agent["tools"]}


def load_run_vectors() -> list[VectorCase]:
    """The 17 vectors of `TurnConformance.run`; [] when the vectors are not there."""
    return [_run_case(vector) for vector in _vectors("run")]


def load_turn_vectors() -> list[VectorCase]:
    """The 3 vectors of `TurnConformance.runTurn`; [] when the vectors are not there."""
    return [_turn_case(vector) for vector in _vectors("runTurn")]


def _vectors(operation: str) -> list[JsonObject]:
    if not VECTORS.exists():
        return []
    entries = json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]
    return [
        entry["vector"]
        for entry in entries
        if entry["contract"] == "TurnConformance" and entry["operation"] == operation
    ]


def _run_case(vector: JsonObject) -> VectorCase:
    given, steps = vector["input"], vector["sequence"]
    return VectorCase(
        name=vector["name"],
        operation="run",
        agent={"name": vector["name"], "tools": given["tools"]},
        messages=[Message.model_validate(message) for message in given["messages"]],
        replies=[_reply(step["llm_response"]["choices"][0]) for step in steps],
        options=RunOptions(
            context_budget=given.get("context_budget"),
            parallel_tool_calls=given.get("parallel_tool_calls", False),
            unknown_tools="raise",
        ),
        guardrails=_guardrails(given["guardrails"]) if "guardrails" in given else None,
        interruptions=[*_cancellation(given), *_steering(given)],
        tool_results={
            result["tool_call_id"]: result["result"]
            for step in steps
            for result in step.get("tool_results", [])
        },
        expected={
            **vector["expected"],
            "tool_calls": [step["expected_tool_calls"] or [] for step in steps],
        },
    )


def _reply(choice: JsonObject) -> ScriptedReply:
    message = choice["message"]
    calls = [{"id": call["id"], **call["function"]} for call in message.get("tool_calls") or []]
    return ScriptedReply.model_validate({"text": message["content"] or "", "tool_calls": calls})


def _cancellation(given: JsonObject) -> list[Interruption]:
    moments = {"before_iteration": 1, "before_iteration_2": 2}
    return (
        [Interruption(moments[given["cancel"]["cancelled_at"]], None)] if "cancel" in given else []
    )


def _steering(given: JsonObject) -> list[Interruption]:
    sent = given.get("steering", {"messages": []})["messages"]
    return [Interruption(message["inject_before_iteration"], message["text"]) for message in sent]


def _guardrails(given: JsonObject) -> Guardrails:
    def verdict(point: str) -> GuardrailResult:
        rule = given.get(point, {"action": "allow"})
        return GuardrailResult(allowed=rule["action"] == "allow", reason=rule.get("reason"))

    def tool(name: str, arguments: JsonObject) -> GuardrailResult:
        return GuardrailResult(
            allowed=name not in given["tool"]["deny_tools"], reason=f"{name} is on the deny list"
        )

    return Guardrails(
        input=(lambda messages: verdict("input")) if "input" in given else None,
        output=(lambda message: verdict("output")) if "output" in given else None,
        tool=tool if "tool" in given else None,
    )


def _turn_case(vector: JsonObject) -> VectorCase:
    given = vector["input"]
    calls = [call for step in given["model"] for call in step.get("tools", [])]
    return VectorCase(
        name=vector["name"],
        operation="runTurn",
        agent={
            "name": vector["name"],
            "tools": [{"kind": "function", "name": name} for name in _names(calls)],
        },
        messages=[Message.model_validate(message) for message in given["messages"]],
        replies=[
            ScriptedReply.model_validate(
                {
                    "text": step.get("output") or step.get("assistant", ""),
                    "tool_calls": step.get("tools", []),
                }
            )
            for step in given["model"]
        ],
        options=RunOptions(),
        guardrails=None,
        interruptions=[Interruption(1, None)] if given.get("cancelBeforeRun") else [],
        tool_results=given.get("toolOutputs", {}),
        expected=vector["expected"],
    )


def _names(calls: Sequence[JsonObject]) -> list[str]:
    return list(dict.fromkeys(call["name"] for call in calls))
