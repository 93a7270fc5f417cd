"""What a run that was started before tells of itself: its agent, its options, and whose code it needs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .problems import UsageProblem
from .user_code import UserCode, load_user_code

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription

    from ..protocol.run import RunInput

CODE_OPTIONS = ("--tools", "--guardrails", "--compactor", "--credentials")
MEMO = "perdure"
"""The name in a run's memo under which `perdure run` notes what `CommandMemo` has, as plain JSON."""


@dataclass(frozen=True)
class CommandMemo:
    """What the command that started a run was given, as far as a later command needs it."""

    folder: str = ""
    """Where the command was typed: sources are relative to it."""
    sources: Mapping[str, list[str]] | None = None
    """By option (`--tools` …), as they were typed."""
    scripted: str | None = None
    mock: bool = False
    """Whether its worker honours answers that stand for a model's."""

    def as_memo(self, task_queue: str) -> dict[str, Any]:
        """The entry of the run's memo."""
        named = {option.removeprefix("--"): sources for option, sources in (self.sources or {}).items()}
        values = {"folder": self.folder, **named, "scripted": self.scripted, "mock": self.mock, "taskQueue": task_queue}
        return {MEMO: {name: value for name, value in values.items() if value}}

    @classmethod
    def read(cls, memo: Mapping[str, Any]) -> CommandMemo:
        """What a run's memo says; nothing for a run that another program started."""
        entry = memo.get(MEMO)
        if not isinstance(entry, Mapping):
            return cls()
        named = {f"--{name}": list(value) for name, value in entry.items() if isinstance(value, list)}
        scripted, mock = entry.get("scripted"), bool(entry.get("mock"))
        return cls(folder=str(entry.get("folder") or ""), sources=named, scripted=scripted, mock=mock)

    @property
    def has_code(self) -> bool:
        """Whether `perdure resume` finds code here that a worker of the run needs."""
        return bool(self.sources or self.scripted or self.mock)

    def load(self) -> UserCode:
        """The code that the command was given, loaded from where it was typed. Raises `UsageProblem`."""
        sources = self.sources or {}
        with self.in_folder():
            return load_user_code(*(sources.get(option, ()) for option in CODE_OPTIONS))

    @contextlib.contextmanager
    def in_folder(self) -> Iterator[None]:
        """While the block runs, paths are relative to where the command was typed. Raises `UsageProblem`."""
        if not self.folder:
            yield
            return
        if not Path(self.folder).is_dir():
            raise UsageProblem(
                f"the run was started in {self.folder!r}, which is not there (any more): name its code with --tools"
            )
        with contextlib.chdir(self.folder):
            yield


@dataclass(frozen=True)
class RecordedRun:
    """A run as the server has it."""

    description: WorkflowExecutionDescription
    input: RunInput
    memo: CommandMemo

    @property
    def has_ended(self) -> bool:
        return self.description.close_time is not None


async def read_recorded(client: Client, run_id: str) -> RecordedRun:
    """What is recorded of the run. Raises `RPCError` when there is none of that id."""
    from ..history.link import read_input

    description = await client.get_workflow_handle(run_id).describe()
    input = await read_input(client, run_id, description.run_id)
    memo = CommandMemo.read(await description.memo())
    if input.session and not memo.has_code:
        memo = await read_memo(await client.get_workflow_handle(input.session.session).describe())
    return RecordedRun(description, input, memo)


async def read_memo(run: WorkflowExecution) -> CommandMemo:
    """What the run's memo says; nothing for one that can't be decoded with this process's converter."""
    try:
        return CommandMemo.read(await run.memo())
    except Exception:
        # Whatever a converter raises: what is said of the run is only less helpful then.
        return CommandMemo()


def command_memo(code: UserCode, scripted: str | None, *, mock: bool = False) -> CommandMemo:
    """What to note of this command."""
    return CommandMemo(folder=os.getcwd(), sources=code.sources, scripted=scripted, mock=mock)
