"""Random scripts of a run, and the stage that plays them while it notes what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from perdure.agents import Agent
from perdure.errors import ModelError, RunError
from perdure.event_data import EventType
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject
from perdure.loop.state import LoopState
from perdure.messages import ImagePart, Message
from perdure.options import RunOptions
from perdure.protocol.outcome import RunResult
from perdure.testing import ScriptedReply, asks, says
from perdure.tool_calls import Approval, ToolRequest
from perdure.tools import tool

from .loop_stage import Clocked, fails, written

TOOLS = [
    "plain",
    "waiting",
    "failing",
    "image",
    "large",
    "alone",
    "approved",
    "denied",
    "rewritten",
]
UNKNOWN = "unknown"
ARGUMENTS = ["{}", '{"n": 1}', "", '{"n": 1,}', "```json\n{}\n```", "[1]", "{broken"]
KINDS = ["rate_limit", "overloaded", "server", "connection", "authentication"]


@dataclass
class Script:
    """What happens in one run."""

    seed: list[Message]
    replies: list[ScriptedReply | ModelError]
    """After the last one, the model answers."""
    options: RunOptions
    interruptions: dict[int, str]
    """At which moment what comes from outside: `steer` or `cancel`."""
    verdicts: dict[str, str]
    """What the input and the output guardrail say: `allow`, `deny`, `fail`, `rewrite`."""
    compactor: str
    """`none`, `fine`, `failing`, `empty` or `waiting`."""


def replies() -> st.SearchStrategy[ScriptedReply | ModelError]:
    one_call = st.builds(written, st.sampled_from([*TOOLS, UNKNOWN]), st.sampled_from(ARGUMENTS))
    asking = st.builds(
        lambda calls, text, tokens: asks(*calls, text=text, output_tokens=tokens),
        st.lists(one_call, min_size=1, max_size=4),
        st.sampled_from(["", "Let me see", "words " * 30]),
        st.integers(0, 50),
    )
    return st.one_of(
        *[asking] * 6,
        st.builds(fails, st.sampled_from(KINDS)),
        st.builds(says, st.sampled_from(["", "Done"])),
    )


def seeds() -> st.SearchStrategy[list[Message]]:
    systems = st.lists(st.just(Message.system("Be brief.")), max_size=2)
    said = st.builds(
        lambda role, text: Message.user(text) if role == "user" else Message.assistant(text),
        st.sampled_from(["user", "assistant"]),
        st.sampled_from(["Hi", "words " * 20, "long " * 100]),
    )
    return st.builds(
        lambda head, rest: [*head, Message.user("Hello"), *rest],
        systems,
        st.lists(said, max_size=5),
    )


def options() -> st.SearchStrategy[RunOptions]:
    return st.builds(
        RunOptions,
        max_iterations=st.integers(1, 8),
        max_llm_retries=st.integers(1, 3),
        context_budget=st.none() | st.integers(20, 1500),
        parallel_tool_calls=st.booleans(),
        stream=st.booleans(),
        cancel_grace=st.sampled_from([0.0, 30.0]),
        rate_limit_seconds=st.sampled_from([0.0, 5.0, 300.0]),
        on_limit=st.sampled_from(["raise", "partial", "final_answer"]),
        unknown_tools=st.sampled_from(["recover"] * 5 + ["raise"]),
        max_total_tokens=st.sampled_from([None, None, None, 60]),
        max_tool_calls=st.sampled_from([None, None, None, 3]),
    )


def scripts() -> st.SearchStrategy[Script]:
    verdict = st.sampled_from(["none"] * 8 + ["allow"] * 6 + ["rewrite"] * 4 + ["deny", "fail"])
    moment = st.integers(1, 30)
    return st.builds(
        Script,
        seed=seeds(),
        replies=st.lists(replies(), max_size=6),
        options=options(),
        interruptions=st.one_of(
            st.dictionaries(moment, st.just("steer"), max_size=4),
            st.dictionaries(moment, st.sampled_from(["steer", "cancel"]), max_size=4),
        ),
        verdicts=st.fixed_dictionaries({"input": verdict, "output": verdict}),
        compactor=st.sampled_from(["none", "none", "fine", "failing", "empty", "waiting"]),
    )


@dataclass
class Seen:
    """What the outside of the loop saw."""

    delivered: list[tuple[str, JsonObject]] = field(default_factory=list)
    asked: list[list[Message]] = field(default_factory=list)
    """The conversation of each model call."""
    completed: int = 0
    """Model calls that gave a reply: one that says nothing is a failed call."""
    executed: int = 0
    steered: list[str] = field(default_factory=list)
    cancelled: bool = False
    started_after_cancel: list[str] = field(default_factory=list)
    state: LoopState | None = None
    result: RunResult | None = None
    error: RunError | None = None


class RandomRun(Clocked):
    """Lets things come from outside at its moments: whenever the loop does something that can be
    seen.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen = Seen()
        self._moment = 0
        self._replies = iter(script.replies)
        declared = [{"kind": "function", "name": name} for name in TOOLS]
        super().__init__(
            Agent.model_validate({"name": "any", "tools": declared}),
            script.seed,
            model=self._model,
            tools=self._tools(),
            options=script.options,
            guardrails=self._guardrails(),
            compactor=None if script.compactor == "none" else self._compact,
            approve=self._approve,
            on_event=lambda type, data: self.seen.delivered.append((type, data)),
        )
        self.effects.after_event = self._after_event

    async def play(self) -> Seen:
        try:
            self.seen.result = await self.run()
        except RunError as error:
            self.seen.error = error
        self.seen.state = self._state
        return self.seen

    def _after_event(self, type: EventType) -> None:
        if type not in ("done", "failed", "cancelled"):
            self._pass_moment()

    def _pass_moment(self) -> None:
        self._moment += 1
        match self.script.interruptions.get(self._moment):
            case "steer":
                self.seen.steered.append(f"steering {self._moment}")
                self.steer(self.seen.steered[-1])
            case "cancel":
                self.seen.cancelled = True
                self.cancel()

    def _begin(self, what: str) -> None:
        if self.seen.cancelled:
            self.seen.started_after_cancel.append(what)
        self._pass_moment()

    async def _model(self, agent: Agent, messages: list[Message]) -> ScriptedReply:
        self._begin("model")
        self.seen.asked.append(messages)
        number = len(self.seen.asked)
        reply = next(self._replies, None) or says("The end")
        await asyncio.sleep(0)
        self._pass_moment()
        if isinstance(reply, ModelError):
            raise reply
        await asyncio.sleep(0)
        self.seen.completed += bool(reply.text or reply.tool_calls)
        calls = [
            found.model_copy(update={"id": f"{number}-{n}"})
            for n, found in enumerate(reply.tool_calls)
        ]
        return reply.model_copy(update={"tool_calls": calls})

    def _tools(self) -> dict[str, Callable[..., Any]]:
        def begin() -> None:
            self.seen.executed += 1
            self._begin("tool")

        def plain(**arguments: Any) -> str:
            begin()
            return f"plain {arguments}"

        async def waiting(**arguments: Any) -> str:
            begin()
            await asyncio.sleep(0)
            self._pass_moment()
            await asyncio.sleep(0)
            return "waited"

        def failing(**arguments: Any) -> str:
            begin()
            raise LookupError("nothing there")

        def image(**arguments: Any) -> ImagePart:
            begin()
            return ImagePart(source="data:image/png;base64,AAAA")

        def large(**arguments: Any) -> str:
            begin()
            return "large " * 100

        def other(**arguments: Any) -> str:
            begin()
            return ""

        functions = {
            "plain": plain,
            "waiting": waiting,
            "failing": failing,
            "image": image,
            "large": large,
        }
        functions |= {
            "alone": tool(name="alone", parallel_safe=False)(waiting),
            "denied": other,
            "rewritten": other,
        }
        return functions | {"approved": tool(name="approved", needs_approval=True)(plain)}

    def _guardrails(self) -> Guardrails:
        def judge_input(messages: list[Message]) -> GuardrailResult:
            return self._verdict("input", [message.model_dump() for message in messages])

        async def judge_output(message: Message) -> GuardrailResult:
            await asyncio.sleep(0)
            return self._verdict("output", f"{message.text}!")

        def judge_tool(name: str, arguments: JsonObject) -> GuardrailResult:
            self._pass_moment()
            rewrite = {"n": 2} if name == "rewritten" else None
            return GuardrailResult(allowed=name != "denied", reason="denied", rewrite=rewrite)

        return Guardrails(
            input=judge_input if self.script.verdicts["input"] != "none" else None,
            output=judge_output if self.script.verdicts["output"] != "none" else None,
            tool=judge_tool,
        )

    def _verdict(self, point: str, rewrite: Any) -> GuardrailResult:
        self._pass_moment()
        match self.script.verdicts[point]:
            case "fail":
                raise ValueError("no verdict")
            case "rewrite":
                return GuardrailResult(allowed=True, rewrite=rewrite)
            case verdict:
                return GuardrailResult(allowed=verdict == "allow", reason="denied")

    async def _compact(self, dropped: list[Message]) -> str:
        self._pass_moment()
        if self.script.compactor == "failing":
            raise LookupError("no words")
        if self.script.compactor == "waiting":
            await asyncio.sleep(0)
        return "" if self.script.compactor == "empty" else f"{len(dropped)} messages"

    def _approve(self, request: ToolRequest) -> Approval:
        self._pass_moment()
        return Approval(approved=request.index % 2 == 0)
