"""What is said between a worker and the process in which it has a function called (`@tool(isolated=True)`)."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..errors import ConfigurationError
from ..messages import JsonObject, Message, ToolResult
from ..tool_calls import ToolProgress
from .declaration import FILE_MODULE


class Place(BaseModel):
    """Where another process finds a function."""

    module: str
    file: str | None
    name: str
    """Its qualified name in the module."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Place:
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
        """The function. Raises what importing its module does, and AttributeError when it is not there."""
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

    place: Place
    path: list[str]
    """The worker's `sys.path`."""
    arguments: JsonObject
    hidden: list[str]
    """The parameters that are bound to inputs."""
    context: JsonObject
    """The fields of the `ToolContext` that are plain values."""
    conversation: list[Message]
    text_bytes: int
    media_bytes: int


class Said(BaseModel):
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
