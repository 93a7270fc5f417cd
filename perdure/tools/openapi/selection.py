"""Which operations of a specification a tool offers: `options` of the tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...spelling import did_you_mean
from .document import SpecificationError

MAX_UNFILTERED = 64
"""So many operations are offered without a filter."""
MAX_OPERATIONS = 128
"""The most that are offered with one: what models take."""
_FILTERS = ("operations", "tags", "exclude")
OPTIONS = (*_FILTERS, "variables")
_HOW = (
    'write `options: {operations: [getPet, "GET /pets"]}`, `options: {tags: [pets]}` or '
    "`options: {exclude: [deletePet]}` at the tool"
)


@dataclass(frozen=True)
class Named:
    """What an operation may be named by in a filter."""

    title: str
    """Such as `GET /pets`."""
    id: str
    """Its operationId; empty without one."""
    tags: Sequence[str]

    @property
    def names(self) -> set[str]:
        """Its operationId and its title."""
        return {self.title, self.id} - {""}


@dataclass(frozen=True)
class Selection:
    """A filter: the operations that are named or have one of the tags (all of them without either), less `exclude`."""

    operations: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Selection:
        """The filter that valid `options` have."""
        return cls(*(frozenset(_spelt(each) for each in options.get(name) or ()) for name in _FILTERS))

    def apply(self, found: Sequence[Named]) -> list[int]:
        """The indexes of those that are offered. Raises SpecificationError: a name that nothing has, too many, none."""
        names = sorted({name for each in found for name in each.names})
        tags = sorted({tag for each in found for tag in each.tags})
        for asked, known, what in (
            (self.operations | self.exclude, names, "operation"),
            (self.tags, tags, "operation with the tag"),
        ):
            for name in sorted(asked - set(known)):
                there = ", ".join(known[:20]) + (" …" if len(known) > 20 else "")
                hint = did_you_mean(name, known)
                raise SpecificationError(f"the specification has no {what} {name!r}{hint}; there: {there or 'none'}")
        chosen = [index for index, each in enumerate(found) if self._takes(each)]
        is_filtered = bool(self.operations or self.tags or self.exclude)
        limit = MAX_OPERATIONS if is_filtered else MAX_UNFILTERED
        if len(chosen) > limit:
            raise SpecificationError(f"{len(chosen)} operations are too many for a model, at most {limit}: {_HOW}")
        if not chosen:
            raise SpecificationError(f"no operation is left to offer, of {len(found)} in the specification: {_HOW}")
        return chosen

    def _takes(self, each: Named) -> bool:
        if each.names & self.exclude:
            return False
        if not self.operations and not self.tags:
            return True
        return bool(each.names & self.operations or self.tags.intersection(each.tags))


def _spelt(name: str) -> str:
    """`get /pets` as `GET /pets`."""
    method, blank, path = name.partition(" ")
    return f"{method.upper()} {path.strip()}" if blank and path.strip().startswith("/") else name


def option_problems(options: Any) -> Iterator[str]:
    """What is wrong with the tool's `options`."""
    if options is None:
        return
    if not isinstance(options, Mapping):
        yield f"options must be a map, got {options!r:.60}"
        return
    for name, value in options.items():
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS)
            yield f"options.{name} means nothing here{hint}. Expected one of {', '.join(OPTIONS)}"
        elif name == "variables":
            if not (isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())):
                yield f"options.variables must be a map of strings, got {value!r:.60}"
        elif not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            yield f"options.{name} must be a list of strings, got {value!r:.60}"
