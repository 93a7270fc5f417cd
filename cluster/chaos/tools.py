"""The tools of the runs: each notes its beginning and its end in a diary, then waits a little."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from pathlib import Path
from typing import Any

from perdure.tools import tool
from perdure.tools.context import ToolContext

FOLDER = Path(os.environ.get("CHAOS_FOLDER", "."))
LARGE_BYTES = 300_000


def note(event: str, tool: str, text: str, context: ToolContext | None = None) -> None:
    """One line, by one write: many processes append to the file."""
    entry: dict[str, Any] = {"at": time.time(), "event": event, "tool": tool, "text": text}
    entry |= {"pid": os.getpid(), "build": os.environ.get("TEMPORAL_WORKER_BUILD_ID", "")}
    if context:
        entry |= {"run": context.run_id, "call": context.call_id, "key": context.idempotency_key}
        entry["attempt"] = context.attempt
    with (FOLDER / "diary.jsonl").open("ab", buffering=0) as diary:
        diary.write(json.dumps(entry).encode() + b"\n")


async def _acts(context: ToolContext, text: str, seconds: float) -> str:
    note("start", context.tool, text, context)
    await asyncio.sleep(random.uniform(0.0, seconds))
    note("end", context.tool, text, context)
    return f"{context.tool} {text} done"


async def step(context: ToolContext, text: str = "") -> str:
    """Take a step."""
    return await _acts(context, text, 1.5)


async def slow(context: ToolContext, text: str = "") -> str:
    """Take a long step."""
    return await _acts(context, text, 4.0)


@tool(idempotent=False)
async def pay(context: ToolContext, text: str = "") -> str:
    """Pay."""
    return await _acts(context, text, 1.5)


@tool(idempotent=False, needs_approval=True)
async def approved(context: ToolContext, text: str = "") -> str:
    """Do what a person has approved."""
    return await _acts(context, text, 1.5)


def in_thread(context: ToolContext, text: str = "") -> str:
    """Take a step in a thread."""
    note("start", "in_thread", text, context)
    time.sleep(random.uniform(0.0, 1.0))
    note("end", "in_thread", text, context)
    return f"in_thread {text} done"


@tool(local=True)
def local_note(context: ToolContext, text: str = "") -> str:
    """Take a short step."""
    note("start", "local_note", text, context)
    note("end", "local_note", text, context)
    return f"local_note {text} done"


@tool(isolated=True, timeout=60)
def apart(context: ToolContext, text: str = "") -> str:
    """Take a step in a process of its own."""
    note("start", "apart", text, context)
    time.sleep(random.uniform(0.0, 1.0))
    note("end", "apart", text, context)
    return f"apart {text} done"


@tool(timeout=5)
async def hangs(context: ToolContext, text: str = "") -> str:
    """Take a step that half of the time never ends."""
    note("start", "hangs", text, context)
    if random.random() < 0.5:
        await asyncio.Event().wait()
    note("end", "hangs", text, context)
    return f"hangs {text} done"


async def large(context: ToolContext, text: str = "") -> str:
    """Read a large file, of 600 KB, which compresses to half of it."""
    note("start", "large", text, context)
    read = os.urandom(LARGE_BYTES).hex()
    note("end", "large", text, context)
    return f"large {text} done {read}"


ALL = [step, slow, pay, approved, in_thread, local_note, apart, hangs, large]
