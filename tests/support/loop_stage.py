"""Where the loop's tests play: a scripted model, tools, and a run whose waits take no time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any

from perdure.agents import Agent
from perdure.errors import ModelError
from perdure.event_data import EventType, LoggedData
from perdure.events import EventLog
from perdure.json_types import JsonObject
from perdure.loop.state import LoopState
from perdure.messages import Message, ModelReply, ToolCall
from perdure.options import RunOptions
from perdure.protocol.outcome import RunResult
from perdure.testing import InProcessRun, ScriptedReply
from perdure.testing.direct_effects import DirectEffects

from .agents import tool_texts

Said = ScriptedReply | ModelReply | ModelError
Step = Said | Callable[[], Said | Awaitable[Said]]
"""What the model does when it is called once: reply, fail, or whatever the function does."""


_OPTIONS = RunOptions.model_fields.keys() - {"guardrails", "compactor"}


def written(tool: str, arguments: str) -> ToolCall:
    """A call whose arguments are any text, as a model may write it."""
    return ToolCall(id=f"call_{tool}", name=tool, arguments=arguments)


def fails(kind: Any, text: str = "it broke", *, retry_after: float | None = None) -> ModelError:
    return ModelError(text, kind=kind, provider="scripted", retry_after=retry_after)


def _raised(said: Said) -> ScriptedReply | ModelReply:
    if isinstance(said, ModelError):
        raise said
    return said


async def _later(said: Awaitable[Said]) -> ScriptedReply | ModelReply:
    return _raised(await said)


class ClockedEffects(DirectEffects):
    """A clock of their own: waiting takes no time and is noted. And a log of events, such as the
    workflow keeps.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seconds = 1_000_000.0
        self.waited: list[float] = []
        self.after_wait: Callable[[], None] = lambda: None
        self.after_event: Callable[[EventType], None] = lambda type: None
        self.after_checkpoint: Callable[[LoopState], None] = lambda state: None
        self.log = EventLog(self.conversation)
        self.cancel_at: tuple[str, int] | None = None
        """Cancels the run at the n-th event of that type."""
        self._emitted: Counter[str] = Counter()

    async def checkpoint(self, state: LoopState) -> None:
        await super().checkpoint(state)
        self.after_checkpoint(state)

    def now(self) -> float:
        return self.seconds

    def random(self) -> float:
        return 0.5

    async def sleep(self, seconds: float, why: str) -> None:
        self.waited.append(seconds)
        self.seconds += seconds
        await super().sleep(0, why)
        self.after_wait()

    def emit(
        self, type: EventType, iteration: int, data: LoggedData, *, call_id: str | None = None
    ) -> None:
        self.log.append(type, iteration, data, time=self.seconds, call_id=call_id)
        super().emit(type, iteration, data, call_id=call_id)
        self._emitted[type] += 1
        if self.cancel_at == (type, self._emitted[type]):
            self.cancel()
        self.after_event(type)


class Clocked(InProcessRun):
    """A run whose waits take no time."""

    effects_type = ClockedEffects
    effects: ClockedEffects


class Stage:
    """One run to be played: `Stage(says("Hi"), tools={…}, max_iterations=3)`.

    Named arguments are fields of `RunOptions`, else arguments of `InProcessRun`. Tools are declared
    without parameters when no `agent` is given.
    """

    def __init__(
        self,
        *steps: Step,
        messages: Sequence[Message] = (Message.system("Be brief."), Message.user("Hi")),
        tools: dict[str, Callable[..., Any]] | None = None,
        agent: Agent | None = None,
        **named: Any,
    ) -> None:
        self.events: list[tuple[str, JsonObject]] = []
        self.seen: list[list[Message]] = []
        """The conversation of each model call."""
        self.agents: list[Agent] = []
        """The agent of each model call."""
        self._steps = iter(steps)
        options = {name: named.pop(name) for name in list(named) if name in _OPTIONS}
        named.setdefault("on_event", lambda type, data: self.events.append((type, data)))
        declared = [{"kind": "function", "name": name} for name in tools or {}]
        self.run = Clocked(
            agent or Agent.model_validate({"name": "staged", "tools": declared}),
            list(messages),
            model=self._model,
            tools=tools or {},
            options=RunOptions(**options),
            **named,
        )

    def _model(self, agent: Agent, messages: list[Message]) -> Any:
        self.agents.append(agent)
        self.seen.append(messages)
        step = next(self._steps, None)
        assert step is not None, f"the script has no step {len(self.seen)}"
        said = step() if callable(step) else step
        return _later(said) if isawaitable(said) else _raised(said)

    async def play(self) -> RunResult:
        return await self.run.run()

    @property
    def effects(self) -> ClockedEffects:
        return self.run.effects

    @property
    def messages(self) -> list[Message]:
        return self.run.conversation.messages

    def types(self, *wanted: str) -> list[str]:
        """The types of the events in order, only the wanted ones if any are named."""
        return [type for type, _ in self.events if not wanted or type in wanted]

    def data(self, type: str) -> list[JsonObject]:
        """The data of the events of one type, without the message list."""
        return [
            {key: value for key, value in data.items() if key != "messages"}
            for kind, data in self.events
            if kind == type
        ]

    def said(self) -> list[str]:
        """The texts of the `status` events."""
        return [data["message"] for data in self.data("status")]

    def results(self) -> list[str]:
        """The texts of the tool messages in the conversation."""
        return tool_texts(self.messages)
