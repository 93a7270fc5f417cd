"""Forks `perdure …` and workers on demand: `python -m tests.support.forker`, with a socket as
stdin.

Importing everything takes a second, forking a process that has done so milliseconds; all else is as
in a process of its own. A request is the length of its JSON, and with it the file descriptors of
stdin, stdout and stderr; then the JSON (`Task`). Each line on stdout is `started PID` or `ended PID
CODE`. At the end of the requests, all processes are killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import termios
from typing import NoReturn, NotRequired, TypedDict

import anthropic  # noqa: F401
import openai  # noqa: F401
from temporalio.worker._worker import load_default_build_id

import perdure.cli
import perdure.testing
import perdure.tools.mcp.calls
import perdure.tools.remote.a2a
import perdure.worker

from .worker_process import WorkerJob, serve

LENGTH = 8


class Task(TypedDict):
    """What one process does: runs a command, or is a worker."""

    arguments: NotRequired[list[str]]
    """Those of `perdure`."""
    worker: NotRequired[str]
    """The JSON of a `WorkerJob`."""
    takes_terminal: NotRequired[bool]
    """It has a session of its own, and the terminal that is its stdin belongs to it."""
    folder: str
    environment: dict[str, str]


def main() -> None:
    for module in pkgutil.iter_modules(perdure.cli.__path__, "perdure.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    load_default_build_id()  # a worker reads all modules for it, once in a process
    gc.collect()
    gc.freeze()
    if (request := _serve(socket.socket(fileno=os.dup(0)))) is not None:
        _become(*request)


def _serve(requests: socket.socket) -> tuple[Task, list[int]] | None:
    """Fork for each request. Returns it in the child, and None at the end."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    children: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = [key.fd for key, _ in selector.select()]
            if woken in ready:
                os.read(woken, 1024)
                _tell_ends(children)
            if requests.fileno() not in ready:
                continue
            if (request := _received(requests)) is None:
                break
            if (child := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (woken, wake, requests.detach()):
                    os.close(descriptor)
                return request
            children.add(child)
            for descriptor in request[1]:
                os.close(descriptor)
            print("started", child, flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return None


def _received(requests: socket.socket) -> tuple[Task, list[int]] | None:
    length, descriptors, _, _ = socket.recv_fds(requests, LENGTH, 3)
    if not length:
        return None
    content = bytearray()
    while len(content) < int(length):
        content += requests.recv(int(length) - len(content))
    return json.loads(content), descriptors


def _tell_ends(children: set[int]) -> None:
    for child in [*children]:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            children.remove(child)
            print("ended", child, os.waitstatus_to_exitcode(status), flush=True)


def _become(task: Task, descriptors: list[int]) -> NoReturn:
    """Do what `python -m perdure.cli`, or a worker process, does from here on."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if task.get("takes_terminal"):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding=sys.stdin.encoding)
    output = io.BufferedWriter(io.FileIO(1, "w"))
    sys.stdout = io.TextIOWrapper(output, encoding=sys.stdout.encoding, line_buffering=os.isatty(1))
    errors = io.BufferedWriter(io.FileIO(2, "w"))
    sys.stderr = io.TextIOWrapper(
        errors, sys.stderr.encoding, "backslashreplace", line_buffering=True
    )
    faulthandler.enable(2)  # what it was doing, for a test that ends it by SIGABRT
    os.environ.clear()
    os.environ.update(task["environment"])
    os.chdir(task["folder"])
    sys.path[0] = task["folder"]
    if "worker" in task:
        asyncio.run(serve(WorkerJob.model_validate_json(task["worker"])))
        sys.exit()
    sys.argv = [os.path.join(perdure.cli.__path__[0], "__main__.py"), *task["arguments"]]
    perdure.cli.main()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
