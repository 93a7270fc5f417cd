"""Reads a `.prompty` file in its written form: the values of its frontmatter, with their lines, and
its body (§2.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from yaml.constructor import SafeConstructor

from ..arguments import MAX_DEPTH, MAX_VALUES, Place, dotted_path, why_no_json
from ..errors import LoadError
from ..json_types import JsonObject, JsonView
from .shorthands import nearest


def read_yaml(
    text: str, first_line: int = 1, *, max_values: int = MAX_VALUES
) -> tuple[Any, dict[Place, int]]:
    """Return the value of the one document in `text`, None if it is empty, and the line of each
    place in it.

    Lines are counted from `first_line`. There are at most `max_values` values, aliases followed.
    Every value has a JSON form: keys stay as written, and dates and sexagesimal numbers are
    strings. Raises LoadError, with the line, for anything else.
    """
    try:
        _check_depth(text, first_line)
        node = yaml.compose(text, Loader=_loader())
    except LoadError:
        raise
    except yaml.MarkedYAMLError as error:
        raise LoadError(
            _describe(error, first_line), line=_line(error.problem_mark, first_line)
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise LoadError(str(error).partition("\n")[0], line=first_line) from None
    builder = _Builder(first_line, max_values)
    return (None if node is None else builder.value(node, ())), builder.lines


class _Builder:
    """Turns nodes into values, and records their lines."""

    def __init__(self, first_line: int, max_values: int) -> None:
        self._max_values = max_values
        self.lines: dict[Place, int] = {}
        self._first_line = first_line
        self._count = 0
        self._constructor = SafeConstructor()
        self._enclosing: list[yaml.Node] = []

    def value(self, node: yaml.Node, place: Place) -> Any:
        """Return the value of a node at that place. Raises LoadError, with the line."""
        self.lines.setdefault(place, self._line(node))
        self._count += 1
        if self._count > self._max_values:
            self._refuse(f"more than {self._max_values} values, aliases followed", node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if any(node is outer for outer in self._enclosing) or len(self._enclosing) > MAX_DEPTH:
            self._refuse(
                f"an alias nests a value in itself, or deeper than {MAX_DEPTH} levels", node
            )
        self._enclosing.append(node)
        value = (
            self._map(node, place)
            if isinstance(node, yaml.MappingNode)
            else self._list(node, place)
        )
        self._enclosing.pop()
        return value

    def _list(self, node: yaml.Node, place: Place) -> list[Any]:
        return [self.value(child, (*place, index)) for index, child in enumerate(node.value)]

    def _map(self, node: yaml.MappingNode, place: Place) -> JsonObject:
        merged: JsonObject = {}
        own: JsonObject = {}
        for key_node, child in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse("a key must be a plain string", key_node)
            key = str(key_node.value)
            if key_node.tag == "tag:yaml.org,2002:merge":
                for base in self._merge(child, place):
                    merged = base | merged
                continue
            self._refuse(
                f"the key {key!r} is written twice" if key in own else why_no_json(key), key_node
            )
            own[key] = self.value(child, (*place, key))
            self.lines[(*place, key)] = self._line(key_node)
        return merged | own

    def _merge(self, node: yaml.Node, place: Place) -> Iterator[JsonObject]:
        value = self.value(node, (*place, "<<"))
        for base in value if isinstance(value, list) else [value]:
            if not isinstance(base, dict):
                self._refuse("`<<` merges maps only", node)
            yield base

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind in ("timestamp", "value") or (kind in ("int", "float") and ":" in node.value):
            return node.value
        if kind not in ("null", "bool", "int", "float", "str"):
            self._refuse(f"the tag {node.tag!r} is not supported", node)
        try:
            value = self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError) as error:
            raise LoadError(
                f"can't read {node.value[:40]!r} as {kind}: {error}", line=self._line(node)
            ) from None
        self._refuse(why_no_json(value), node)
        return value

    def _refuse(self, reason: str | None, node: yaml.Node) -> None:
        if reason:
            raise LoadError(reason, line=self._line(node))

    def _line(self, node: yaml.Node) -> int:
        return self._first_line + int(node.start_mark.line)


def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _check_depth(text: str, first_line: int) -> None:
    """Refuse deep nesting before composing, whose recursion in C would end the process. Raises
    LoadError.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > MAX_DEPTH:
            raise LoadError(
                f"nested deeper than {MAX_DEPTH} levels", line=_line(event.start_mark, first_line)
            )


def _line(mark: Any, first_line: int) -> int:
    return first_line + (int(mark.line) if mark is not None else 0)


def _describe(error: yaml.MarkedYAMLError, first_line: int) -> str:
    problem = error.problem or str(error)
    if error.context is None or error.context_mark is None:
        return problem
    return f"{problem} {error.context} that starts on line {_line(error.context_mark, first_line)}"


MAX_BYTES = 64 * 2**20
"""A larger file is refused."""
_PYTHON = frozenset({".py", ".pyi", ".pyc"})
_OPENER = re.compile(r"\s*(---|\+\+\+)[^\S\n]*(?:\n|\Z)")
_CLOSER = re.compile(r"^(?:---|\+\+\+)[^\S\n]*(?:\n|\Z)", re.MULTILINE)
_UNOPENED = re.compile(
    r"\s*(?:name|displayName|description|model|inputs|outputs|tools|template) *:"
)


@dataclass(frozen=True)
class WrittenAsset:
    """An asset as its author wrote it: references unresolved, shorthands unexpanded."""

    data: JsonView
    """The frontmatter's map."""
    body: str = ""
    file: Path | None = None
    """None for an asset given as a map."""
    lines: Mapping[Place, int] = field(default_factory=dict)
    """The line of each place in `data`, counted from 1 at the top of the file."""
    body_line: int = 1
    """The line that the body begins on."""
    has_frontmatter: bool = True

    def locate(self, error: LoadError, place: Place) -> LoadError:
        """Return a copy of the error that names the file, and the field and line of `place`."""
        line = error.line or nearest(place, self.lines)
        return type(error)(
            error.message, file=self.file, field=dotted_path(place) or error.field, line=line
        )


def read_asset(file: Path) -> WrittenAsset:
    """Read the file.

    Raises LoadError if it is Python code, not UTF-8 text, or its frontmatter is not a map in YAML.
    """
    if file.suffix in _PYTHON:
        raise LoadError(
            "the file is Python code. Expected properties between two lines `---`, then text",
            file=file,
        )
    try:
        text = split_frontmatter(read_text(file))
        data, lines = read_frontmatter(text.frontmatter or "", text.frontmatter_line)
    except LoadError as error:
        raise LoadError(error.message, file=file, line=error.line) from None
    return WrittenAsset(data, text.body, file, lines, text.body_line, text.frontmatter is not None)


def read_frontmatter(yaml: str, first_line: int) -> tuple[JsonObject, dict[Place, int]]:
    """Return the frontmatter's map, {} if it is empty, and the line of each place in it.

    The text begins on line `first_line` of the file. Raises LoadError, with the line, if it is not
    a map in YAML.
    """
    try:
        data, lines = read_yaml(yaml, first_line)
    except LoadError as error:
        raise LoadError(f"Invalid frontmatter YAML: {error.message}", line=error.line) from None
    if data is None:
        return {}, lines
    if not isinstance(data, dict):
        raise LoadError(
            f"Invalid frontmatter: expected a map of properties, got {data!r:.60}", line=first_line
        )
    return data, lines


def read_text(file: Path) -> str:
    """Return the text of a regular file, without a byte order mark.

    Raises LoadError, with the line if there is one, if the file can't be read, or is not UTF-8
    text.
    """
    content = _read(file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LoadError(
            f"the file is not UTF-8 text: {error.reason} at byte {error.start}. Expected a text "
            "file in UTF-8",
            line=1 + content.count(b"\n", 0, error.start),
        ) from None


def _read(file: Path) -> bytes:
    try:
        if not file.is_file():
            raise LoadError("the file is not a regular file. Expected a text file")
        if file.stat().st_size > MAX_BYTES:
            raise LoadError(
                f"the file has {file.stat().st_size} bytes. Expected a text of {MAX_BYTES} at most"
            )
        return file.read_bytes()
    except OSError as error:
        raise LoadError(f"the file can't be read: {error.strerror or error}") from None


class SplitText(NamedTuple):
    """Frontmatter and body; lines are counted from 1."""

    frontmatter: str | None
    """None if the text has no frontmatter: then all of it is the body."""
    frontmatter_line: int
    body: str
    body_line: int


def split_frontmatter(text: str) -> SplitText:
    """Split a file's text at delimiters that stand alone on their lines (§18-1); line ends become
    `\\n`.

    Raises LoadError for an opening delimiter without a closing one.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    opener = _OPENER.match(text)
    if opener is None and _UNOPENED.match(text) and _CLOSER.search(text):
        raise LoadError(
            "Invalid frontmatter: the first line has to be `---`, before the properties; they end "
            "at the next line `---`",
            line=1,
        )
    if opener is None:
        return SplitText(None, 1, text, 1)
    closer = _CLOSER.search(text, opener.end())
    if closer is None:
        raise LoadError(
            "Invalid frontmatter: the opening delimiter has no closing `---` alone on a line",
            line=1 + text.count("\n", 0, opener.start(1)),
        )
    body = text[closer.end() :].lstrip()
    return SplitText(
        frontmatter=text[opener.end() : closer.start()],
        frontmatter_line=1 + text.count("\n", 0, opener.end()),
        body=body,
        body_line=1 + text.count("\n", 0, len(text) - len(body)),
    )
