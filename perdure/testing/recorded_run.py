"""Makes a pytest fixture of an exported run: its model's replies and its tools' results."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ..agents import Agent
from ..client.callers import wait_for_result
from ..client.run_input import loaded_agent
from ..json_types import JsonView
from ..messages import ModelReply, ToolCall
from ..protocol.outcome import RunResult
from ..providers.prompted.call import written_of
from ..tools.handlers import collect_tools
from .against_record import AgainstRecord
from .direct_effects import Tools
from .recording import RecordedReply, Recording, read_recording
from .script import ScriptedReply


class RecordedRun:
    """An exported run to replay: calling it runs the agent and returns the result.

    The record gives the model's replies, in order, and answers the tool calls.
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
        return wait_for_result(self._run(agent, collect_tools(tools), more))

    async def _run(
        self, given: Agent | str | os.PathLike[str] | None, tools: JsonView, more: JsonView
    ) -> RunResult:
        # The recorded replies are in the tool protocol that the run used at its end.
        protocol = {"tool_protocol": "json"} if self.recording.lost_native_tools else {}
        options = {**protocol, **(more.get("options") or {})}
        run = AgainstRecord(
            self.recording,
            agent=None if given is None else loaded_agent(given),
            model=[_given_reply(each.reply) for each in self.recording.replies],
            tools=tools,
            **{
                "handoffs": self.recording.handoffs if given is None else None,
                **more,
                "options": options,
            },
        )
        return await run.run()


def _given_reply(reply: ModelReply) -> ModelReply | ScriptedReply:
    """Return the reply as the model gave it: the loop reads the tool calls in a text anew."""
    if (written := written_of(reply.message)) is None:
        return reply.model_copy(deep=True)
    usage = reply.usage
    return ScriptedReply(
        text=written, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens
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
