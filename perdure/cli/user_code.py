"""Loads what `--tools`, `--guardrails`, `--compactor` and `--credentials` name: functions and objects of modules."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..commands import shell_word
from ..errors import ConfigurationError, LoadError
from .console import keep_stdout_for_answers, say
from .problems import UsageProblem

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription

    from ..agents import Agent
    from ..guardrails import Compactor
    from ..protocol.run import RunInput


@dataclass
class UserCode:
    """The user's code that a worker needs; false when there is none."""

    tools: dict[str, Callable[..., Any]] = field(default_factory=dict)
    guardrails: dict[str, Any] = field(default_factory=dict)
    compactors: dict[str, Compactor] = field(default_factory=dict)
    credentials: Any = None
    """What `create_worker` takes as such."""
    sources: dict[str, list[str]] = field(default_factory=dict)
    """What was typed, by the option that it was typed for."""
    names_its_tools: bool = False
    """Whether a source of --tools names functions: then there are no tools but those that are loaded, whatever else
    `@tool` has registered when the sources were imported."""

    def __bool__(self) -> bool:
        return bool(self.sources)

    def as_options(self) -> str:
        """The options, as text to append to a command."""
        named = [(option, source) for option, sources in self.sources.items() for source in sources]
        return "".join(f" {option} {shell_word(source)}" for option, source in named)


def load_user_code(
    tools: Sequence[str] = (),
    guardrails: Sequence[str] = (),
    compactors: Sequence[str] = (),
    credentials: Sequence[str] = (),
) -> UserCode:
    """Import everything that is named. Raises `UsageProblem`, which says what is wrong with which option.

    From here on, stdout is for the command's answer alone: what the user's code prints goes to stderr.
    """
    keep_stdout_for_answers()
    named = {"--tools": tools, "--guardrails": guardrails, "--compactor": compactors, "--credentials": credentials}
    return UserCode(
        tools=_load_tools(tools),
        guardrails=_load_guardrails(guardrails),
        compactors=_load_compactors(compactors),
        credentials=_load_credentials(credentials),
        sources={option: list(sources) for option, sources in named.items() if sources},
        names_its_tools=_name_functions(tools),
    )


def load_named(option: str, sources: Sequence[str]) -> dict[str, Any]:
    """The objects of all sources `module:name`, by name. Raises `UsageProblem`."""
    from ..tools.handlers import load_objects

    keep_stdout_for_answers()
    try:
        return {name: value for source in sources for name, value in load_objects(source).items()}
    except ConfigurationError as error:
        raise UsageProblem(f"{option}: {error}") from error


def _load_guardrails(sources: Sequence[str]) -> dict[str, Any]:
    """The objects. Raises `UsageProblem` for one that is no `Guardrails`, such as a function."""
    from ..argument_types import require_each

    loaded = load_named("--guardrails", sources)
    try:
        require_each("guardrails", loaded, "guardrails")
    except TypeError as error:
        raise UsageProblem(
            f"--guardrails: {error}. Write, for example, NAME = Guardrails(tool=function), and name that"
        ) from error
    return loaded


def _load_credentials(sources: Sequence[str]) -> Any:
    """The one object that is named. Raises `UsageProblem` for one that can have no secrets."""
    for source in sources:
        for name, value in load_named("--credentials", [source]).items():
            if not callable(value) and not isinstance(value, Mapping):
                text = "expected a mapping from ids to secrets, or a function"
                raise UsageProblem(f"--credentials {source}: {name} is {type(value).__name__}, {text}")
            return value
    return None


def _load_compactors(sources: Sequence[str]) -> dict[str, Compactor]:
    """The functions, and the agents of `.prompty` files by the files' names without their ending."""
    files = [Path(source) for source in sources if source.endswith(".prompty")]
    named: dict[str, Compactor] = load_named(
        "--compactor", [source for source in sources if not source.endswith(".prompty")]
    )
    return {**named, **{file.stem: _load_compactor(file) for file in files}}


def _load_compactor(file: Path) -> Agent:
    from ..prompty.load import load

    try:
        return load(file, defer_environment=True)
    except (LoadError, OSError) as error:
        raise UsageProblem(f"--compactor {file}: {error}") from error


def _name_functions(sources: Sequence[str]) -> bool:
    from ..tools.handlers import names_in

    return any(map(names_in, sources))


def _load_tools(sources: Sequence[str]) -> dict[str, Callable[..., Any]]:
    from ..tools.handlers import load_tools

    try:
        return load_tools(*sources)
    except ConfigurationError as error:
        raise UsageProblem(f"--tools: {error}") from error


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


def say_mocks(*, honoured: bool) -> None:
    """Say which of the two is missing, where a worker is to honour answers that are not there, or the other way."""
    from ..settings.mocks import VARIABLE, is_set

    if honoured and not is_set(os.environ):
        say(f"{VARIABLE} is not set: models are asked, in spite of --mock", "strong")
    elif is_set(os.environ) and not honoured:
        say(f"{VARIABLE} is set, and has no effect: models are asked, unless --mock is given")


def require_mocks(*, asked: bool, scripted: str | None, quiet: bool) -> None:
    """Say that there are answers without effect, unless a run is to take them.

    Raises `UsageProblem` when it is to take answers that are not there, or such that exclude each other.
    """
    from ..settings.mocks import VARIABLE, is_set

    if not (asked or scripted or quiet):
        say_mocks(honoured=False)
    if asked and scripted:
        raise UsageProblem("--mock and --scripted exclude each other: both answer in the place of the model")
    if asked and not is_set(os.environ):
        raise UsageProblem(f"--mock: {VARIABLE} is not set. Expected a JSON list of answers, such as '[\"Hello\"]'")
