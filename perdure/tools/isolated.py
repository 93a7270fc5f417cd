"""Runs a plain function in a process of its own, whose end, of any kind, ends nothing else."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from ..errors import ConfigurationError
from ..json_types import JsonObject, JsonView
from ..loading import FILE_MODULE, load_module
from ..messages import ToolResult
from ..redaction import get_logger
from ..tool_results import SizeLimits
from .context import ToolContext, log_fields

LAST_SECONDS = 0.5
"""Seconds between the end of the process and that of its answer, in either order."""
_END_LOOK_SECONDS = 0.1
"""Seconds between two checks that the process still exists."""
MARK = "PERDURE_ISOLATED_CALL"
"""The environment variable that identifies a call's processes, on systems that show it (Linux)."""
PROCESS_DIED = "process_died"
_PLAIN = (
    *("run_id", "iteration", "call_id", "idempotency_key", "attempt", "may_repeat", "tool"),
    *("last_heartbeat", "traceparent", "conversation", "deps"),
)
_MOST_PER_BYTE = 6
"""Bytes of JSON that a byte of a result may take."""
_log = get_logger("perdure.tools")


class FunctionAddress(NamedTuple):
    """The address of a function for another process."""

    place: str
    """Its module, or the file of a module that only its worker knows."""
    name: str
    """Its qualified name in the module."""
    folder: str
    """The folder from which its module can be imported."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionAddress:
        """Return the function's address. Raises ConfigurationError, with the remedy, for a function
        that another process can't find or call.
        """
        name, module = getattr(function, "__qualname__", repr(function)), function.__module__
        if (
            not inspect.isfunction(function)
            or inspect.iscoroutinefunction(function)
            or "<" in name
            or module == "__main__"
        ):
            raise ConfigurationError(
                f"isolated=True of {name}: expected a plain function, not an async one, on the top "
                "level of a module other than the program itself: another process imports it by "
                "its name. Move it to a module, and call asyncio.run(...) in it for async code"
            )
        file = Path(getattr(sys.modules.get(module), "__file__", None) or "")
        folder = file.parents[module.count(".") + (file.name == "__init__.py")] if file.name else ""
        return cls(str(file) if module.startswith(FILE_MODULE) else module, name, str(folder))

    def function(self) -> Callable[..., Any]:
        """Return the function. Raises ConfigurationError for a module that can't be imported, and
        AttributeError if it lacks the function.
        """
        found: Callable[..., Any] = attrgetter(self.name)(load_module(self.place))
        return found


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
        path = [*sys.path, address.folder]  # Modules beside a file are importable only here.
        job = Job(address, path, plain, hidden, fields, secret, limits)
        return partial(_result, job, context.tool, log_fields(context.tool, context))

    return with_context


async def _result(job: Job, tool: str, extra: JsonObject) -> ToolResult:
    """Return the function's result, or its failure. In any case, the process and its descendants
    have ended on return. Raises OSError if the process can't be started.
    """
    mark = uuid4().hex
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "perdure.tools.isolated_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_MOST_PER_BYTE * (job.limits.text_bytes + job.limits.media_bytes) + 2**20,
        start_new_session=True,
        env={**os.environ, MARK: mark},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(pickle.dumps(job))
    answering = asyncio.create_task(process.stdout.readline())
    ending = asyncio.create_task(_end_of(process))
    try:
        await asyncio.wait({answering, ending}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({answering}, timeout=LAST_SECONDS)
        if answering.done() and (line := answering.result()):
            return ToolResult.model_validate_json(line)
        await asyncio.wait({ending}, timeout=LAST_SECONDS)
        text = (
            f"its process {_end_text(process.returncode)} before the function did (its output is "
            "in the worker's stderr)"
        )
        _log.error("Tool %r: %s", tool, text, extra=extra)
        return ToolResult.failure(
            f"Error: Tool '{tool}' failed: {text}", kind=PROCESS_DIED, outcome_unknown=True
        )
    finally:
        end_processes(process.pid, mark)
        answering.cancel()
        ending.cancel()


async def _end_of(process: asyncio.subprocess.Process) -> None:
    """Poll for the end: `wait` and the pipes end only with all descendants of the process."""
    while process.returncode is None:
        await asyncio.sleep(_END_LOOK_SECONDS)


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
