"""Has a plain function called in a process of its own, whose end, however it comes, ends nothing else."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from ..errors import ConfigurationError
from ..loading import FILE_MODULE
from ..messages import JsonObject, Message, ToolResult
from ..redaction import get_logger
from ..tool_calls import ToolProgress
from ..tool_results import SizeLimits
from .context import ToolContext, log_fields
from .process_words import ProcessWords
from .results import with_advice

LOOK_SECONDS = 0.5
"""Between two looks whether the run was cancelled, once the function has asked."""
_END_LOOK_SECONDS = 0.1
"""Between two looks whether the process is still there."""
_CHUNK_BYTES = 2**18
MARK = "PERDURE_ISOLATED_CALL"
"""The variable by which the processes of a call are known, where the system shows it (Linux)."""
PROCESS_DIED = "process_died"
_PLAIN = (
    *("run_id", "iteration", "call_id", "idempotency_key", "attempt", "may_repeat", "tool", "last_heartbeat"),
    "traceparent",
)
_MOST_PER_BYTE = 6
"""Bytes of JSON that a byte of a result may take."""
_log = get_logger("perdure.tools")


class FunctionAddress(BaseModel):
    """Where another process finds a function."""

    module: str
    file: str | None
    name: str
    """Its qualified name in the module."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionAddress:
        """Raises ConfigurationError, which says what to do, for a function that no other process can find or call."""
        name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", "") or ""
        shown = f"isolated=True of {name or function!r}"
        if not inspect.isfunction(function) or "<" in name:
            raise ConfigurationError(f"{shown}: expected a function on the top level of a module, found by its name")
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                f"{shown}: expected a plain function, not an async one: call asyncio.run(...) in a plain function"
            )
        if module == "__main__":
            raise ConfigurationError(
                f"{shown}: it is in the program itself, which can't be imported without being run: move it to a module"
            )
        return cls(module=module, file=getattr(sys.modules.get(module), "__file__", None), name=name)

    def function(self) -> Callable[..., Any]:
        """Return the function. Raises what importing its module does, and AttributeError when it is not there."""
        module, file = sys.modules.get(self.module), Path(self.file or "")
        if self.file:  # Where it was importable only while it was imported, as files that a worker is given are.
            sys.path.append(str(file.parents[self.module.count(".") + (file.name == "__init__.py")]))
        if module is None and self.file and self.module.startswith(FILE_MODULE):
            spec = importlib.util.spec_from_file_location(self.module, self.file)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[self.module] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        found: Any = module or importlib.import_module(self.module)
        for name in self.name.split("."):
            found = getattr(found, name)
        function: Callable[..., Any] = found
        return function


class Job(BaseModel):
    """One call, the first line that the process reads."""

    address: FunctionAddress
    path: list[str]
    """The worker's `sys.path`."""
    arguments: JsonObject
    hidden: list[str]
    """The parameters that are bound to inputs."""
    context: JsonObject
    """The fields of the `ToolContext` that are plain values."""
    conversation: list[Message]
    secret: str
    """Of the token that `ToolContext.later` gives; "" for none."""
    text_bytes: int
    media_bytes: int


class ProcessMessage(BaseModel):
    """A line that the process writes; the one with `result` or `raised` is the last."""

    result: ToolResult | None = None
    raised: str | None = None
    """The kind of what the function raised."""
    text: str = ""
    traceback: str = ""
    outcome_unknown: bool = False
    heartbeat: list[Any] | None = None
    progress: ToolProgress | None = None
    asks_cancelled: bool = False


def is_isolated(function: Callable[..., Any]) -> bool:
    """Return whether the function is declared so."""
    return bool(getattr(getattr(function, "__tool_spec__", None), "isolated", False))


def isolated_call(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    hidden: Sequence[str],
    limits: SizeLimits,
    resources: Mapping[str, type],
) -> Callable[[ToolContext], Callable[[], Any]]:
    """Return the call, once its context is known.

    Raises ConfigurationError for a function that needs what only the worker's own process has, and for arguments that
    have no JSON form.
    """
    if resources:
        names = ", ".join(f"{name} ({kind.__name__})" for name, kind in resources.items())
        raise ConfigurationError(f"an isolated tool has no resources of its worker: open {names} in the function")
    try:
        plain = json.loads(json.dumps(dict(arguments), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the arguments of an isolated tool need a JSON form: {error}") from None
    address = FunctionAddress.of(function)

    def with_context(context: ToolContext) -> Callable[[], Any]:
        job = Job(
            address=address,
            path=sys.path,
            arguments=plain,
            hidden=list(hidden),
            context={name: getattr(context, name) for name in _PLAIN},
            conversation=list(context.conversation),
            secret=context.secret() if context.secret else "",
            text_bytes=limits.text_bytes,
            media_bytes=limits.media_bytes,
        )
        return _IsolatedCall(job, context).result

    return with_context


class _IsolatedCall:
    """One process. However this ends, the process and all that it has started have ended with it."""

    def __init__(self, job: Job, context: ToolContext) -> None:
        self._job = job
        self._context = context
        self._heard = 0
        """How many messages have come from the process."""
        self._mark = uuid4().hex
        self._most = _MOST_PER_BYTE * (job.text_bytes + job.media_bytes) + 2**20

    async def result(self) -> ToolResult:
        """Return what the function gives, or how it failed. Raises OSError where no process can be started."""
        reader, process = await self._start()
        words = ProcessWords(f"The process of tool {self._context.tool!r}", _log)
        logging = asyncio.create_task(self._log_words(process, words))
        tasks = [logging]
        saying = asyncio.create_task(self._last_message(reader, process, tasks))
        ending = asyncio.create_task(self._await_end(process))
        try:
            await asyncio.wait({saying, ending}, return_when=asyncio.FIRST_COMPLETED)
            await self._await_rest(saying)
            said = saying.result() if saying.done() else None
            await asyncio.wait({logging}, timeout=LOOK_SECONDS)  # For its last words.
            if said is not None:
                return self._result_of_words(said)
            await asyncio.wait({ending}, timeout=LOOK_SECONDS)
            return self._result_of_death(process, words)
        finally:
            end_processes(process.pid, self._mark)
            for task in (*tasks, saying, ending):
                task.cancel()
            words.end()

    async def _start(self) -> tuple[asyncio.StreamReader, asyncio.subprocess.Process]:
        loop = asyncio.get_running_loop()
        ours, theirs = os.pipe()
        try:
            reader = asyncio.StreamReader(limit=self._most)
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "perdure.tools.isolated_process", str(theirs)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(theirs,),
                start_new_session=True,
                env={**os.environ, MARK: self._mark},
            )
        finally:
            os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(self._job.model_dump_json(by_alias=True).encode() + b"\n")
        return reader, process

    async def _last_message(
        self, reader: asyncio.StreamReader, process: asyncio.subprocess.Process, tasks: list[asyncio.Task[None]]
    ) -> ProcessMessage | None:
        while line := await self._line(reader):
            self._heard += 1
            said = ProcessMessage.model_validate_json(line)
            if said.progress is not None:
                self._context.report(said.progress)
            elif said.heartbeat is not None:
                self._context.heartbeat(*said.heartbeat)
            elif said.asks_cancelled:
                tasks.append(asyncio.create_task(self._tell_when_cancelled(process)))
            else:
                return said
        return None

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.readline()
        except ValueError:
            raise ValueError(f"its process has written more than {self._most:,} bytes at once") from None

    async def _tell_when_cancelled(self, process: asyncio.subprocess.Process) -> None:
        while not self._context.cancelled:
            await asyncio.sleep(LOOK_SECONDS)
        assert process.stdin is not None
        process.stdin.write(b"cancelled\n")

    async def _log_words(self, process: asyncio.subprocess.Process, words: ProcessWords) -> None:
        assert process.stdout is not None
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            words.hear(chunk)
            await asyncio.sleep(0)  # Others have their turn while there is always more.

    async def _await_end(self, process: asyncio.subprocess.Process) -> None:
        """Its `wait` and the ends of its pipes come only with the end of all that it has started."""
        while process.returncode is None:
            await asyncio.sleep(_END_LOOK_SECONDS)

    async def _await_rest(self, saying: asyncio.Task[ProcessMessage | None]) -> None:
        """Wait for what a process that is gone has still said, as long as there is more."""
        heard = -1
        while not saying.done() and heard != self._heard:
            heard = self._heard
            await asyncio.wait({saying}, timeout=LOOK_SECONDS)

    def _result_of_words(self, said: ProcessMessage) -> ToolResult:
        if said.result is not None:
            return said.result
        name = self._context.tool
        extra = log_fields(name, self._context)
        _log.error("Tool %r raised %s in its process\n%s", name, said.text, said.traceback, extra=extra)
        text = f"Error: Tool '{name}' failed: {with_advice(said.text)}"
        return ToolResult.failure(text, kind=said.raised or "error", outcome_unknown=said.outcome_unknown)

    def _result_of_death(self, process: asyncio.subprocess.Process, words: ProcessWords) -> ToolResult:
        code, name = process.returncode, self._context.tool
        last = words.last_words
        text = f"its process {_end_text(code)} before the function did{last and f'; it wrote: {last}'}"
        _log.error("Tool %r: %s", name, text, extra=log_fields(name, self._context))
        return ToolResult.failure(f"Error: Tool '{name}' failed: {text}", kind=PROCESS_DIED, outcome_unknown=True)


def end_processes(group: int, mark: str) -> None:
    """End what a call has started: whatever has left its group for a session of its own, and then the group."""
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (each / "environ").read_bytes() and os.getpgid(int(each.name)) != group:
                os.kill(int(each.name), signal.SIGKILL)
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)


def _end_text(code: int | None) -> str:
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended with exit code {code}"
    known = -code in {int(each) for each in signal.Signals}
    return f"was killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
