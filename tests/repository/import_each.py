"""Imports every module of perdure in a process of its own and writes what that did, as JSON: run by a test.

The libraries that perdure uses are loaded before, so that what is seen is perdure's own doing. So are the layers below
a module's own: they know nothing of it, so no circle leads through them (test_house.py).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from tests.repository.house import FRONT_DOOR, LAYERS, modules, room_of

LIBRARIES = (
    "a2a.client",
    "anthropic",
    "jinja2.sandbox",
    "mcp",
    "openai",
    "opentelemetry.sdk.trace",
    "pydantic",
    "temporalio.client",
    "temporalio.contrib.opentelemetry",
    "temporalio.contrib.pydantic",
    "temporalio.testing",
    "temporalio.worker",
    "typer",
    "watchfiles",
    "yaml",
)
EFFECTS = ("os.mkdir", "os.remove", "os.rename", "os.system", "socket.connect", "socket.bind", "subprocess.Popen")


def effects_of_importing(name: str) -> list[str]:
    """What the import did beside defining things; [] when it did nothing else."""
    effects: list[str] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EFFECTS:
            effects.append(f"{event} {arguments[0]!r}")
        elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
            effects.append(f"open {arguments[0]!r} {arguments[1]!r}")

    sys.addaudithook(watch)
    try:
        importlib.import_module(name)
    except BaseException as error:
        effects.append(f"{type(error).__name__}: {error}")
    return list(effects)


def in_a_child(name: str) -> list[str]:
    reading, writing = os.pipe()
    if os.fork() == 0:
        # What the module prints arrives in the same pipe, as text that is not JSON.
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.dont_write_bytecode = True
        effects = effects_of_importing(name)
        sys.stdout.flush()
        os.write(writing, json.dumps(effects).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.wait()
    return json.loads(said) if said.startswith("[") else [f"prints {said!r}"]


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    found = {FRONT_DOOR: in_a_child(FRONT_DOOR)}
    for layer in LAYERS:
        names = [name for name in modules() if name != FRONT_DOOR and room_of(name) in layer]
        found |= {name: in_a_child(name) for name in names}
        for name in names:
            importlib.import_module(name)
    print(json.dumps(found))
