"""Runs a plain function in a process of its own, whose end, of any kind, ends nothing else."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from ..errors import ConfigurationError
from ..json_types import JsonObject, JsonView
from ..loading import FILE_MODULE
from ..messages import ToolResult
from ..redaction import get_logger
from ..tool_results import SizeLimits
from .context import ToolContext, log_fields
from .process_words import ProcessWords

LAST_SECONDS = 0.5
"""Seconds for the process's remaining output after its result or its end."""
_END_LOOK_SECONDS = 0.1
"""Seconds between two checks that the process still exists."""
_CHUNK_BYTES = 2**18
MARK = "PERDURE_ISOLATED_CALL"
"""The environment variable that identifies a call's processes, on systems that show it (Linux)."""
PROCESS_DIED = "process_died"
_PLAIN = (
    *(
        "run_id",
        "iteration",
        "call_id",
        "idempotency_key",
        "attempt",
        "may_repeat",
        "tool",
        "last_heartbeat",
    ),
    *("traceparent", "conversation", "deps"),
)
_MOST_PER_BYTE = 6
"""Bytes of JSON that a byte of a result may take."""
_log = get_logger("perdure.tools")


class FunctionAddress(NamedTuple):
    """The address of a function for another process."""

    module: str
    file: str | None
    name: str
    """Its qualified name in the module."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionAddress:
        """Raises ConfigurationError, with the remedy, for a function that another process can't
        find or call.
        """
        name, module = (
            getattr(function, "__qualname__", ""),
            getattr(function, "__module__", "") or "",
        )
        shown = f"isolated=True of {name or function!r}"
        if not inspect.isfunction(function) or "<" in name:
            raise ConfigurationError(
                f"{shown}: expected a function on the top level of a module, found by its name"
            )
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                f"{shown}: expected a plain function, not an async one: call asyncio.run(...) in a "
                "plain function"
            )
        if module == "__main__":
            raise ConfigurationError(
                f"{shown}: it is in the program itself, which can't be imported without being run: "
                "move it to a module"
            )
        return cls(
            module=module, file=getattr(sys.modules.get(module), "__file__", None), name=name
        )

    def function(self) -> Callable[..., Any]:
        """Return the function. Raises the errors of its module's import, and AttributeError if it
        is missing.
        """
        module, file = sys.modules.get(self.module), Path(self.file or "")
        if (
            self.file
        ):  # It may have been importable only during its import, as files given to a worker are.
            sys.path.append(
                str(file.parents[self.module.count(".") + (file.name == "__init__.py")])
            )
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


class Job(NamedTuple):
    """One call, as the process reads it from stdin."""

    address: FunctionAddress
    path: list[str]
    """The worker's `sys.path`."""
    arguments: JsonObject
    hidden: Sequence[str]
    """The parameters bound to inputs."""
    context: JsonObject
    """The fields of the `ToolContext` that are plain values."""
    secret: str
    """Secret of the token in `ToolContext.later`; "" without one."""
    limits: SizeLimits


def is_isolated(function: Callable[..., Any]) -> bool:
    """Return whether the function is declared as isolated."""
    return bool(getattr(getattr(function, "__tool_spec__", None), "isolated", False))


def isolated_call(
    function: Callable[..., Any],
    arguments: JsonView,
    hidden: Sequence[str],
    limits: SizeLimits,
    resources: Mapping[str, type],
) -> Callable[[ToolContext], Callable[[], Any]]:
    """Return a function from the call's context to the call.

    Raises ConfigurationError for a function that needs objects of the worker's own process, and for
    arguments without a JSON form.
    """
    if resources:
        names = ", ".join(f"{name} ({kind.__name__})" for name, kind in resources.items())
        raise ConfigurationError(
            f"an isolated tool has no resources of its worker: open {names} in the function"
        )
    try:
        plain = json.loads(json.dumps(dict(arguments), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the arguments of an isolated tool need a JSON form: {error}"
        ) from None
    address = FunctionAddress.of(function)

    def with_context(context: ToolContext) -> Callable[[], Any]:
        fields = {name: getattr(context, name) for name in _PLAIN}
        secret = context.secret() if context.secret else ""
        job = Job(address, sys.path, plain, hidden, fields, secret, limits)
        return partial(_result, job, context.tool, log_fields(context.tool, context))

    return with_context


async def _result(job: Job, tool: str, extra: JsonObject) -> ToolResult:
    """Return the function's result, or its failure. In any case, the process and its descendants
    have ended on return. Raises OSError if the process can't be started.
    """
    mark, words = uuid4().hex, ProcessWords(f"The process of tool {tool!r}", _log)
    reader, process = await _start(job, mark)
    tasks = [
        asyncio.create_task(each)
        for each in (reader.readline(), _end_of(process), _log_words(process, words))
    ]
    answering, _, logging = tasks
    try:
        await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({answering}, timeout=LAST_SECONDS)
        await asyncio.wait({logging}, timeout=LAST_SECONDS)
        if answering.done() and (line := answering.result()):
            return ToolResult.model_validate_json(line)
        await asyncio.wait(tasks[:2], timeout=LAST_SECONDS)
        last = words.last_words
        text = (
            f"its process {_end_text(process.returncode)} before the function "
            f"did{last and f'; it wrote: {last}'}"
        )
        _log.error("Tool %r: %s", tool, text, extra=extra)
        return ToolResult.failure(
            f"Error: Tool '{tool}' failed: {text}", kind=PROCESS_DIED, outcome_unknown=True
        )
    finally:
        end_processes(process.pid, mark)
        for task in tasks:
            task.cancel()
        words.end()


async def _start(job: Job, mark: str) -> tuple[asyncio.StreamReader, asyncio.subprocess.Process]:
    ours, theirs = os.pipe()
    try:
        reader = asyncio.StreamReader(
            limit=_MOST_PER_BYTE * (job.limits.text_bytes + job.limits.media_bytes) + 2**20
        )
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0)
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "perdure.tools.isolated_process", str(theirs)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=(theirs,),
            start_new_session=True,
            env={**os.environ, MARK: mark},
        )
    finally:
        os.close(theirs)
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(job))
    return reader, process


async def _end_of(process: asyncio.subprocess.Process) -> bytes:
    """Poll for the end: `wait` and the pipes end only with all descendants of the process."""
    while process.returncode is None:
        await asyncio.sleep(_END_LOOK_SECONDS)
    return b""


async def _log_words(process: asyncio.subprocess.Process, words: ProcessWords) -> bytes:
    assert process.stdout is not None
    while chunk := await process.stdout.read(_CHUNK_BYTES):
        words.hear(chunk)
        await asyncio.sleep(0)  # Yield to other tasks during endless output.
    return b""


def end_processes(group: int, mark: str) -> None:
    """End a call's processes: first those that left its group for their own session, then the
    group.
    """
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                f"{MARK}={mark}".encode() in (each / "environ").read_bytes()
                and os.getpgid(int(each.name)) != group
            ):
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
