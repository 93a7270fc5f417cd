"""Reads YAML as values that JSON has too, with the line of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from ..errors import LoadError
from ..json_values import MAX_DEPTH, MAX_VALUES, why_no_json
from .places import Place


def read_yaml(text: str, first_line: int = 1, *, max_values: int = MAX_VALUES) -> tuple[Any, dict[Place, int]]:
    """The value of the one document in `text`, None when it is empty, and the line of each place in it.

    Lines are counted from `first_line`. There are at most `max_values` values, aliases followed. Every value has a JSON
    form: keys are kept as they are written, and dates and sexagesimal numbers are strings. Raises LoadError, with the
    line, for anything else.
    """
    try:
        _check_depth(text, first_line)
        node = yaml.compose(text, Loader=_loader())
    except LoadError:
        raise
    except yaml.MarkedYAMLError as error:
        raise LoadError(_describe(error, first_line), line=_line(error.problem_mark, first_line)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise LoadError(str(error).partition("\n")[0], line=first_line) from None
    builder = _Builder(first_line, max_values)
    return (None if node is None else builder.value(node, ())), builder.lines


class _Builder:
    """Turns nodes into values, and remembers their lines."""

    def __init__(self, first_line: int, max_values: int) -> None:
        self._max_values = max_values
        self.lines: dict[Place, int] = {}
        self._first_line = first_line
        self._count = 0
        self._constructor = SafeConstructor()
        self._enclosing: list[yaml.Node] = []

    def value(self, node: yaml.Node, place: Place) -> Any:
        """The value of a node at that place. Raises LoadError, with the line."""
        self.lines.setdefault(place, self._line(node))
        self._count += 1
        if self._count > self._max_values:
            self._refuse(f"more than {self._max_values} values, aliases followed", node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if any(node is outer for outer in self._enclosing) or len(self._enclosing) > MAX_DEPTH:
            self._refuse(f"an alias nests a value in itself, or deeper than {MAX_DEPTH} levels", node)
        self._enclosing.append(node)
        value = self._map(node, place) if isinstance(node, yaml.MappingNode) else self._list(node, place)
        self._enclosing.pop()
        return value

    def _list(self, node: yaml.Node, place: Place) -> list[Any]:
        return [self.value(child, (*place, index)) for index, child in enumerate(node.value)]

    def _map(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse("a key must be a plain string", key_node)
            key = str(key_node.value)
            if key_node.tag == "tag:yaml.org,2002:merge":
                for base in self._merged(child, place):
                    merged = base | merged
                continue
            self._refuse(f"the key {key!r} is written twice" if key in own else why_no_json(key), key_node)
            own[key] = self.value(child, (*place, key))
            self.lines[(*place, key)] = self._line(key_node)
        return merged | own

    def _merged(self, node: yaml.Node, place: Place) -> Iterator[dict[str, Any]]:
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
            raise LoadError(f"can't read {node.value[:40]!r} as {kind}: {error}", line=self._line(node)) from None
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
    """Refuse deep nesting before composing, whose recursion in C would end the process. Raises LoadError."""
    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise LoadError(f"nested deeper than {MAX_DEPTH} levels", line=_line(event.start_mark, first_line))


def _line(mark: Any, first_line: int) -> int:
    return first_line + (int(mark.line) if mark is not None else 0)


def _describe(error: yaml.MarkedYAMLError, first_line: int) -> str:
    problem = error.problem or str(error)
    if error.context is None or error.context_mark is None:
        return problem
    return f"{problem} {error.context} that starts on line {_line(error.context_mark, first_line)}"
