"""Reads what a program gives as images, files and recordings: paths, bytes, open files. For the caller's process."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..errors import LoadError, RenderError
from ..media import is_base64, source_problem
from ..messages import AudioPart, FilePart, ImagePart
from .references import contained_path
from .rich_values import MEDIA, SOURCES

MAX_PATH_CHARS = 4096


def with_media_read(agent: Agent, inputs: Mapping[str, Any] | str) -> dict[str, Any]:
    """The inputs, in which those of kind image, file and audio are JSON; a text is the value of the only one.

    A `Path` and a file that is open in binary mode are read, wherever they are. A text is a URL, a `data:` URI, base64,
    or the path of a file that the agent's own file could name as `${file:…}`: in its folder or in the
    `allowed_file_roots` of `load`. Raises RenderError for anything else, and for a file that can't be read; TypeError
    for a text alone where it is not clear which input is meant.
    """
    if isinstance(inputs, str):
        inputs = {_only_input(agent): inputs}
    kinds = {prop.name: prop.kind for prop in agent.inputs or []}
    return {
        name: _Given(agent, name, kinds[name]).read(value) if kinds.get(name) in MEDIA else value
        for name, value in inputs.items()
    }


def _only_input(agent: Agent) -> str:
    declared = [prop for prop in agent.inputs or [] if prop.kind != "thread"]
    for among in (declared, [prop for prop in declared if prop.required]):
        if len(among) == 1:
            return among[0].name
    names = ", ".join(prop.name for prop in declared) or "no inputs"
    raise TypeError(f"inputs: a text alone is for an agent with one input, and this one has {names}: give a mapping")


class _Given:
    """One input of an agent."""

    def __init__(self, agent: Agent, name: str, kind: str) -> None:
        self._agent = agent
        self._name = name
        self._part = MEDIA[kind]
        self._kind = kind

    def read(self, value: Any) -> Any:
        """The value as JSON. Raises RenderError."""
        try:
            return self._read(value)
        except OSError as error:
            raise self._refusal(f"the file can't be read ({error.strerror or error})") from error
        except ValueError as error:
            raise self._refusal(str(error)) from error

    def _read(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._read(item) for item in value]
        if isinstance(value, self._part):
            return value.model_dump(by_alias=True, exclude_none=True)
        if isinstance(value, Mapping):
            return self._read_map(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._fields(self._part.from_bytes(bytes(value)))
        if isinstance(value, PathLike) or hasattr(value, "read"):
            return self._fields(self._part.from_file(value))
        if isinstance(value, str) and (path := self._allowed_file(value)):
            return self._fields(self._part.from_file(path))
        if isinstance(value, str) and (problem := source_problem(value, is_given=True)):
            raise ValueError(f"{problem}{self._place_of_files(value)}")
        return value

    def _read_map(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A map of `source` and what is told beside it, which goes before what the content says."""
        source = next((key for key in SOURCES if key in value), None)
        if source is None:
            return dict(value)
        read = self._read(value[source])
        told = {key: each for key, each in value.items() if key != source}
        return {**(read if isinstance(read, dict) else {"source": read}), **told}

    @staticmethod
    def _fields(part: ImagePart | AudioPart | FilePart) -> dict[str, Any]:
        return part.model_dump(by_alias=True, exclude_none=True)

    def _allowed_file(self, text: str) -> Path | None:
        """The file that the text names, if the agent's own file could name it, and it is not hidden."""
        if len(text) > MAX_PATH_CHARS or "\n" in text or "://" in text or (len(text) > 255 and is_base64(text)):
            return None
        folder = self._agent._base_dir
        roots = [Path(root).resolve() for root in (folder, *self._agent._file_roots) if root is not None]
        try:
            path = contained_path(text, None if folder is None else Path(folder), roots)
            is_hidden = any(step.startswith(".") for root in roots for step in _steps(path, root))
            return path if path.is_file() and not is_hidden else None
        except (LoadError, OSError, ValueError):
            return None

    def _place_of_files(self, text: str) -> str:
        return f", nor a file that may be read: give pathlib.Path({text!r}) for one of yours" if len(text) < 200 else ""

    def _refusal(self, text: str) -> RenderError:
        return RenderError(f"input {self._name!r}: {text}")


def _steps(path: Path, root: Path) -> tuple[str, ...]:
    return path.relative_to(root).parts if path.is_relative_to(root) else ()
