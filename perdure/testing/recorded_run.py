"""Makes a pytest fixture of an exported run: its model's replies and its tools' results."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from temporalio.client import Client

from ..agents import Agent, others_of, with_others
from ..client.callers import wait_for_result
from ..client.runs import start_run
from ..declared_tools import CustomTool, FunctionTool, OfferedFunction, Tool
from ..json_types import JsonObject, JsonView
from ..messages import ToolCall
from ..options import RunOptions
from ..prompty.load import load
from ..protocol.outcome import RunResult
from ..providers.prompted.call import written_of
from ..schema import object_schema
from ..tools.handlers import collect_tools
from ..tools.kind import Asking, KindCall, Offering, ToolKind
from ..worker import create_worker
from ..worker_limits import OPEN
from .against_record import AgainstRecord, offered_to, option_values
from .direct_effects import Tools
from .recording import Answers, RecordedReply, Recording, read_recording
from .script import ScriptedReply, ScriptedRequest
from .server import ScriptedModel, with_script

_NOT_HERE = {"guardrails": None, "compactor": None, "max_cost_usd": None, "warn_cost_usd": None}
"""Options that need objects which a test's worker lacks."""


class RecordedRun:
    """An exported run to replay: calling it runs the agent and returns the result.

    A scripted model gives the recorded replies over HTTP, and the record answers the tool calls.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        """The contents of the export."""

    @property
    def output(self) -> Any:
        """Return the recorded answer; None if the run failed."""
        return self.recording.output

    @property
    def failure(self) -> JsonView | None:
        """Return the `kind` and the `message` of the recorded run's error."""
        return self.recording.failure

    @property
    def replies(self) -> list[RecordedReply]:
        """Return the model's replies, in order."""
        return self.recording.replies

    @property
    def calls(self) -> list[ToolCall]:
        """Return the model's tool calls, in order."""
        return [each.call for each in self.recording.calls]

    def __call__(
        self, agent: Agent | str | os.PathLike[str] | None = None, *, tools: Tools = (), **more: Any
    ) -> RunResult:
        """Run the agent in this process and return the result.

        Runs the recorded agent, or the given `agent`, which may be a file. Functions in `tools` are
        called for real; the record answers all other calls, approvals included. `more` are further
        arguments of `InProcessRun`, such as `guardrails`; its `options` is a dict of the options to
        change.

        Raises `RunError` if the run ends without a result, and `Diverged`, an AssertionError, for a
        tool call without a recorded result.
        """
        return wait_for_result(self._in_process(agent, _functions_by_name(tools), more))

    async def _in_process(
        self, given: Agent | str | os.PathLike[str] | None, tools: JsonView, more: JsonView
    ) -> RunResult:
        options = {**self._protocol(), **(more.get("options") or {})}
        known = {"handoffs": self.recording.handoffs if given is None else None}
        with self._model() as model:
            agent = with_script(_agent(given, self.recording), model)
            run = AgainstRecord(
                self.recording, agent=agent, tools=tools, **{**known, **more, "options": options}
            )
            return await run.run()

    async def on_server(
        self,
        client: Client,
        agent: Agent | str | os.PathLike[str] | None = None,
        *,
        tools: Tools = (),
        **worker: Any,
    ) -> RunResult:
        """Run the agent as a real run on the server of `client`, with its own worker, and return
        the result.

        `worker` are further arguments of `create_worker`. Raises as a call does, and ValueError for
        a run that was steered: its messages can't be sent at the same moments again.
        """
        if any(self.recording.steering.values()):
            raise ValueError(
                f"run {self.recording.id!r} was steered while it ran: play it in this process"
            )
        real, queue = _functions_by_name(tools), f"perdure-recorded-{uuid.uuid4()}"
        declared, kind = _with_recorded_tools(_agent(agent, self.recording), self.recording, real)
        kinds = {**worker.pop("tool_kinds", {}), RecordedKind.name: kind}
        options = {**option_values(self.recording), **_NOT_HERE, **self._protocol()}
        with self._model() as model:
            async with create_worker(
                client, task_queue=queue, tools=real, tool_kinds=kinds, **{"limits": OPEN, **worker}
            ):
                run = await start_run(
                    client,
                    with_script(declared, model),
                    self.recording.inputs,
                    messages=self.recording.messages,
                    task_queue=queue,
                    deps=self.recording.deps,
                    options=RunOptions.model_validate(options),
                    handoffs=self.recording.handoffs if agent is None else None,
                )
                return await run.result()

    def _protocol(self) -> JsonObject:
        """Return the tool protocol of the recorded replies: the one in use at the end of the
        run.
        """
        return {"tool_protocol": "json"} if self.recording.lost_native_tools else {}

    def _model(self) -> ScriptedModel:
        replies, number = [_scripted_reply(each) for each in self.recording.replies], count()

        def next_reply(request: ScriptedRequest) -> ScriptedReply:
            """By order, not by conversation: trimming may have dropped turns from it."""
            place = next(number)
            if place < len(replies):
                return replies[place]
            text = f"the record has {len(replies)} replies, and this is model call {place + 1}"
            return ScriptedReply(
                status=400, error={"error": {"message": text, "type": "invalid_request_error"}}
            )

        return ScriptedModel(next_reply)


class RecordedKind(ToolKind):
    """Tools whose calls a record answers."""

    name = "perdure.recorded"

    def __init__(self, functions: Mapping[str, Sequence[Offering]], answers: Answers) -> None:
        self._functions = functions
        self._answers = answers

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        return self._functions[tool.name]

    async def execute(self, call: KindCall) -> Any:
        asked = ToolCall(
            id=call.context.call_id or "", name=call.name, arguments=json.dumps(call.arguments)
        )
        return self._answers.claim([asked])[0]


def _with_recorded_tools(
    agent: Agent, recording: Recording, real: JsonView
) -> tuple[Agent, RecordedKind]:
    """Return the agent with tools answered by the record, except the real ones and those for
    handoffs.

    The same applies to the agents to hand over to.
    """
    functions: dict[str, Sequence[Offering]] = {}
    known = others_of(recording.agent)
    others = {
        path: _with_recorded(
            each, recording.as_agent(path) if path in known else recording, real, functions
        )
        for path, each in others_of(agent).items()
    }
    answers = Answers([each for each in recording.calls if each.call.name not in real])
    return with_others(_with_recorded(agent, recording, real, functions), others), RecordedKind(
        functions, answers
    )


def _with_recorded(
    agent: Agent, recording: Recording, real: JsonView, functions: dict[str, Sequence[Offering]]
) -> Agent:
    handoffs: list[Tool] = [tool for tool in agent.tools or () if tool.is_handoff]
    kept = {*real, *(tool.name for tool in handoffs)}
    complete = agent.with_declarations(offered_to(agent, recording))
    if offered := [_offering_of(tool) for tool in complete.tools or [] if tool.name not in kept]:
        name = f"recorded-{len(functions)}"
        functions[name] = offered
        handoffs = [*handoffs, CustomTool(kind=RecordedKind.name, name=name)]
    return agent.model_copy(
        update={"tools": [*(tool for tool in agent.tools or [] if tool.name in real), *handoffs]}
    )


def _offering_of(tool: Tool) -> Offering:
    if isinstance(tool, OfferedFunction):
        return Offering(
            tool.name, tool.description, tool.schema_ or {"type": "object", "properties": {}}
        )
    declared = tool.parameters or [] if isinstance(tool, FunctionTool) else []
    return Offering(tool.name, tool.description, object_schema(declared))


def _agent(given: Agent | str | os.PathLike[str] | None, recording: Recording) -> Agent:
    if given is None or isinstance(given, Agent):
        return given or recording.agent
    return load(given, defer_environment=True)


def _functions_by_name(tools: Tools) -> Mapping[str, Callable[..., Any]]:
    return collect_tools(tools)


def _scripted_reply(recorded: RecordedReply) -> ScriptedReply:
    message, usage = recorded.reply.message, recorded.reply.usage
    written = written_of(message)
    return ScriptedReply(
        text=message.text if written is None else written,
        tool_calls=message.tool_calls if written is None else [],
        finish_reason=recorded.reply.finish_reason,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )


def recorded(file: str | os.PathLike[str]) -> Any:
    """Return a pytest fixture, whose value is the `RecordedRun` of the file: `run =
    recorded("bug-17.jsonl")`.

    `perdure export ID` writes the file; the path is relative to the test module. Raises
    ConfigurationError for any other file.
    """
    import pytest

    caller = sys._getframe(1).f_code.co_filename
    recording = read_recording(Path(caller).parent / file)

    @pytest.fixture
    def run() -> RecordedRun:
        return RecordedRun(recording)

    return run
