"""Tells the operator, in the worker's log, what went wrong in a tool; the model is told in the tool's result."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from pathlib import Path
from traceback import extract_tb

from ..redaction import get_logger
from .context import ToolContext, about
from .kind import OutcomeUnknown

_BELOW = (
    str(Path(__file__).parents[1]),
    str(Path(asyncio.__file__).parent),
    str(Path(concurrent.futures.__file__).parent),
    threading.__file__,
)
"""Where the frames come from that lead to a tool."""
_FOREIGN = ("is bound to a different event loop", "attached to a different loop", "Event loop is closed")
"""What asyncio says of an object that was made for another event loop than the one that uses it."""
_log = get_logger("perdure.tools")


def describe(error: BaseException) -> str:
    """The exception's type and text, such as `KeyError: 'nokey'`. Never raises."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}" if str(error) else kind
    except Exception:
        return kind


def with_advice(text: str) -> str:
    """An error's text, and what to do where it speaks of a client that belongs to another event loop."""
    if not any(words in text for words in _FOREIGN):
        return text
    return (
        f"{text}. Tools and guardrails run on an event loop of their own: open the client in the function that uses "
        "it, or pass the client's loop, create_worker(tool_loop=…)"
    )


def log_raised(name: str, error: BaseException, context: ToolContext) -> None:
    """Log that the tool raised: with its traceback, from the tool's own code on, once it is not executed again.

    Never raises.
    """
    own, again = _from_own_code(error), context.retries_left and not isinstance(error, OutcomeUnknown)
    _log.log(
        logging.WARNING if again else logging.ERROR,
        "Tool %r raised %s%s%s%s",
        *(name, describe(error), _place(own), _which(context), "; it is executed again" if again else ""),
        exc_info=None if again else own,
        extra=about(name, context),
    )


def log_timeout(name: str, seconds: float, context: ToolContext) -> None:
    """Log that the tool was given up after these seconds."""
    _log.warning(
        "Tool %r timed out after %g s%s",
        *(name, seconds, _which(context)),
        extra=about(name, context),
    )


def _which(context: ToolContext) -> str:
    return f" (run {context.run_id}, call {context.call_id}, attempt {context.attempt})" if context.run_id else ""


def _from_own_code(error: BaseException) -> BaseException:
    """The error, its traceback without the frames that lead to the tool."""
    start = error.__traceback__
    while start and start.tb_next and start.tb_frame.f_code.co_filename.startswith(_BELOW):
        start = start.tb_next
    return error.with_traceback(start)


def _place(error: BaseException) -> str:
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_BELOW)]
    return f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
