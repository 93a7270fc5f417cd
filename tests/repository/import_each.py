"""Imports every module of perdure and writes what each import did, as JSON: run by a test.

The libraries that perdure uses are loaded before, so that what is seen is perdure's own doing. So
are the modules that a module imports, since all are imported in that order, in one process: none of
them knows of it, for no circle leads through files (test_house.py). With `--alone`, each module has
a process of its own, in which only the layers below its own are loaded.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import Any

from .house import DOORS, FRONT_DOOR, LAYERS, SIDE_DOOR, imports_inside, layer_of, modules, room_of

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
    "click",
    "watchfiles",
    "yaml",
)
EFFECTS = (
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.system",
    "socket.connect",
    "socket.bind",
    "subprocess.Popen",
)


_seen: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what is done beside defining things, as an audit hook."""
    if event in EFFECTS:
        _seen.append(f"{event} {arguments[0]!r}")
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        _seen.append(f"open {arguments[0]!r} {arguments[1]!r}")


def effects_of_importing(name: str) -> list[str]:
    """What the import did beside defining things; [] when it did nothing else."""
    _seen.clear()
    try:
        importlib.import_module(name)
    except BaseException as error:
        _seen.append(f"{type(error).__name__}: {error}")
    return list(_seen)


def in_a_child(name: str) -> list[str]:
    reading, writing = os.pipe()
    if os.fork() == 0:
        # What the module prints arrives in the same pipe, as text that is not JSON.
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        effects = effects_of_importing(name)
        sys.stdout.flush()
        os.write(writing, json.dumps(effects).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.wait()
    return json.loads(said) if said.startswith("[") else [f"prints {said!r}"]


def in_order() -> Iterator[str]:
    """All modules, each after those that it imports."""
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for found in imports_inside():
        graph[found.importer].add(found.imported)
    yield FRONT_DOOR
    order = [name for name in TopologicalSorter(graph).static_order() if name not in DOORS]
    yield from sorted(order, key=lambda name: layer_of(room_of(name)))
    yield SIDE_DOOR


def each_alone() -> dict[str, list[str]]:
    """What the import of each module does in a process of its own."""
    found = {name: in_a_child(name) for name in DOORS}
    for layer in LAYERS:
        names = [name for name in modules() if room_of(name) in layer]
        found |= {name: in_a_child(name) for name in names}
        for name in names:
            importlib.import_module(name)
    return found


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    sys.dont_write_bytecode = True
    sys.addaudithook(watch)
    alone = "--alone" in sys.argv
    print(
        json.dumps(
            each_alone() if alone else {name: effects_of_importing(name) for name in in_order()}
        )
    )
