"""Functions that are called in processes of their own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from perdure import ToolContext, tool
from perdure.tools import OutcomeUnknown


class Database:
    """A resource."""


@tool(isolated=True)
def behave(how: str, /, place: str = "") -> str:
    """Do what is said."""
    match how:
        case "exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "raise":
            raise KeyError("nokey")
        case "unknown":
            raise OutcomeUnknown("no answer")
        case "large":
            return "x" * 5_000_000
        case "print":
            print("to stdout")
            print("to stderr", file=sys.stderr)
        case "fork":
            child = os.fork()
            if not child:
                os.setsid()
                time.sleep(600)
                os._exit(0)
            Path(place).write_text(str(child))
            os._exit(3)
        case "read":
            return (
                subprocess.run(["cat"], capture_output=True, text=True, check=True).stdout
                + sys.stdin.read()
            )
        case "leave":
            sys.exit("gone")
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            sleep = subprocess.Popen(["sleep", "600"])
            apart = subprocess.Popen(["sleep", "600"], start_new_session=True)
            Path(place).write_text(f"{os.getpid()} {sleep.pid} {apart.pid}")
            time.sleep(600)
    return f"{how} in {os.getpid()}"


@tool(isolated=True, idempotent=False)
def sign(text: str, place: str) -> str:
    """Write a line into a file."""
    with Path(place).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    time.sleep(0.1)
    return "signed"


@tool(isolated=True)
def tell(context: ToolContext) -> list[object]:
    """Tell which call it is."""
    return [context.call_id, context.attempt, list(context.last_heartbeat)]


@tool(isolated=True)
def query(database: Database) -> str:
    """Ask the database."""
    return str(database)


@tool(isolated=True)
def order_later(context: ToolContext) -> str:
    """Hand the call to another system."""
    return context.later()


def tenant_of(context: ToolContext) -> str:
    tenant: str = context.deps.tenant
    return tenant
