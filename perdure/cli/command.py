"""Runs a command's coroutine: signals, the exit code, and its log on stderr, as text or as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import logging.config
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, get_args

from click.exceptions import Exit

from ..json_types import JsonObject
from ..text import visible
from . import console
from .problems import DONE, FAILED, INTERRUPTED, UsageProblem

LEVEL_VARIABLE, FORMAT_VARIABLE = "PERDURE_LOG_LEVEL", "PERDURE_LOG_FORMAT"
Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]
ABOUT = ("run", "tool", "call", "attempt")
"""The fields of a log record besides its text: the run, tool, call and attempt."""

_OTHERS: dict[str, str] = {
    "debug": "DEBUG",
    "info": "WARNING",
    "warning": "WARNING",
    "error": "ERROR",
}
"""perdure's level → that of all other libraries."""
_CORE: dict[str, str] = {"debug": "INFO", "info": "WARN", "warning": "WARN", "error": "ERROR"}
"""perdure's level → that of Temporal's core."""


class TextFormatter(logging.Formatter):
    """Formats a record as lines of text with control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: JsonObject = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        about = {
            name: value
            for name in ABOUT
            if (value := getattr(record, name, None)) not in (None, "")
        }
        exception = {"exception": record.exc_text} if record.exc_text else {}
        return console.to_json({**fields, **about, **exception}, indent=None)


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current stderr: while a terminal shows a run, log lines appear above the
    view.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """`sys.stderr`."""
        return sys.stderr


def configure(default: Level, *, metrics: str | None = None) -> None:
    """Set up the log of this process from the environment, which the options have set; `default` is
    the level.

    `metrics` is the address at which to serve metrics, if any. Raises `UsageProblem` for an unknown
    level or format, and `ConfigurationError` when metrics can't be served.
    """
    level = _choice(LEVEL_VARIABLE, default, get_args(Level))
    form = _choice(FORMAT_VARIABLE, "text", get_args(Format))
    handler = {
        "()": "perdure.cli.command.StderrHandler",
        "formatter": form,
        "filters": ["without secrets"],
    }
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"without secrets": {"()": "perdure.redaction.WithoutSecrets"}},
            "formatters": {
                "text": {
                    "()": TextFormatter,
                    "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
                },
                "json": {"()": JsonFormatter},
            },
            "handlers": {"stderr": handler},
            "loggers": {"perdure": {"level": level.upper()}},
            "root": {"level": _OTHERS[level], "handlers": ["stderr"]},
        }
    )
    say_as_configured()
    _set_up_core(_CORE[level], metrics)


def _choice(variable: str, default: str, known: tuple[str, ...]) -> str:
    value = os.environ.get(variable, "").lower() or default
    if value not in known:
        raise UsageProblem(f"{variable} is {value!r}, expected one of: {', '.join(known)}")
    return value


def _set_up_core(level: str, metrics: str | None) -> None:
    """Send the log of Temporal's core here instead of the console, and serve metrics."""
    # A command without a coroutine, such as `perdure validate`, does not need Temporal.
    from temporalio.runtime import (
        LogForwardingConfig,
        LoggingConfig,
        Runtime,
        TelemetryConfig,
        TelemetryFilter,
    )

    forwarding = LogForwardingConfig(
        logging.getLogger("temporalio.core"), append_target_to_name=False
    )
    filter = TelemetryFilter(core_level=level, other_level="ERROR")
    logged = LoggingConfig(filter=filter, forwarding=forwarding)
    if metrics is None:
        runtime = Runtime(telemetry=TelemetryConfig(logging=logged))
    else:
        from ..worker.metrics import metrics_runtime  # most commands serve no metrics

        runtime = metrics_runtime(metrics, logging=logged)
    Runtime.set_default(runtime, error_if_already_set=False)


def say_as_configured() -> None:
    """Give the command's messages the form of its log from now on."""
    if os.environ.get(FORMAT_VARIABLE, "").lower() == "json":
        console.say_as(_log_line)


def _log_line(text: str, tone: console.Tone) -> str:
    """Return a message in the form of the command's log; "" for an empty line."""
    level = logging.ERROR if tone == "bad" else logging.INFO
    record = logging.LogRecord("perdure.cli", level, "", 0, text.strip(), None, None)
    return JsonFormatter().format(record) if text.strip() else ""


LEAVE_SECONDS = 20.0
"""The process ends this long after SIGTERM plus a service's grace period, whatever it still waits
for."""


def execute(
    command: Coroutine[Any, Any, int | None],
    *,
    is_service: bool = False,
    metrics: str | None = None,
    grace: float = 0.0,
    leave_after: float = LEAVE_SECONDS,
) -> None:
    """Run the coroutine and end the command with its exit code; None is 0.

    SIGTERM acts like Ctrl-C: it cancels the coroutine, which cleans up, and the exit code is 130.
    For a service, SIGTERM is the normal end, with exit code 0. Raises click's `Exit` for any other
    code than 0. `grace` and `leave_after` seconds after SIGTERM the process ends without waiting
    longer, for example for a thread that never returns.

    `metrics` is the `HOST:PORT` at which this process serves metrics for Prometheus. Raises
    `ConfigurationError` when that is not possible.

    A service logs for its operator, including starts and ends of runs; other commands inform their
    user themselves, and log errors. From here on, the garbage collector skips imported objects.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    try:
        configure("info" if is_service else "error", metrics=metrics)
        code = asyncio.run(
            _until_sigterm(command, DONE if is_service else INTERRUPTED, grace + leave_after)
        )
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        command.close()
    if code:
        raise Exit(code)


async def _until_sigterm(
    command: Coroutine[Any, Any, int | None], code_on_sigterm: int, seconds: float
) -> int:
    task = asyncio.ensure_future(command)
    terminated = asyncio.Event()

    def terminate() -> None:
        if not terminated.is_set():
            timer = threading.Timer(seconds, _leave, (seconds,))
            timer.daemon = True
            timer.start()
        terminated.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await task or DONE
    except asyncio.CancelledError:
        if not terminated.is_set():
            raise
        return code_on_sigterm


def _leave(seconds: float) -> None:
    """End the process from another thread: the event loop may wait for a thread forever."""
    console.say(
        f"perdure: some work did not end within {seconds:g} s of SIGTERM; it is abandoned", "bad"
    )
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(FAILED)
