"""Measures of the package's names, sizes and constants: `python -m tests.repository.measures
[NAME…]`.

With a measure's name, the program lists each place that counts; with `rooms`, the syntax nodes of
each room; with `budgets`, it writes CONTRIBUTING.md's figures, lowering each budget to them; with
`constants`, it lists constants of time and size in their order.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

from .house import PACKAGE, ROOT, imports_inside, modules, room_of, statements, trees

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
MAX_LINES = 500
"""About as much as 400 lines of 120 columns."""
MAX_DENSITY = 5.85
"""Syntax nodes per line of the package, blank lines too. It only falls."""

TESTS = ROOT / "tests"
GUIDE = ROOT / "CONTRIBUTING.md"
BUDGET = re.compile(r"^\| (?P<room>[a-z]+) \| (?P<nodes>[\d,]+) \|$", re.MULTILINE)
"""A row of CONTRIBUTING's table of budgets."""
FEATURE = re.compile(
    r"^\| (?P<name>[^|`]+) \| (?P<files>`[^|]+`) \| (?P<nodes>[\d,]+) \| \[(?P<page>[^|]+)\) \|$",
    re.MULTILINE,
)
"""A row of CONTRIBUTING's table of features."""
MESSAGE_WORDS = 3
"""So many words make a text of the code a message."""


@dataclass(frozen=True)
class Measure:
    """How many of some things are as they should not be, and how many may be."""

    name: str
    limit: float
    """A share between 0 and 1 where the measure counts `of` something; otherwise a number. It only
    falls."""
    count: Callable[[], tuple[list[str], int]]
    """Lists the places that count, and gives of how many: 0 for a plain number."""
    advice: str

    @property
    def places(self) -> list[str]:
        return self.count()[0]

    @property
    def value(self) -> float:
        places, of = self.count()
        return len(places) / of if of else len(places)

    @property
    def is_met(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        _, of = self.count()
        value, limit = (
            f"{number:.2%}" if of else f"{number:.0f}" for number in (self.value, self.limit)
        )
        return f"{self.name:26} {value:>7} of {of or '-':<5} at most {limit}"


def long_files() -> tuple[list[str], int]:
    lengths = {path: len(path.read_text().splitlines()) for path in modules().values()}
    return [f"{_shown(path)}: {lines}" for path, lines in lengths.items() if lines > MAX_LINES], 0


def modules_with_one_importer() -> tuple[list[str], int]:
    """Modules that one other file of the package imports; an `__init__` is neither counted nor an
    importer.
    """
    importers = defaultdict(set)
    faces = {name for name, path in modules().items() if path.name == "__init__.py"}
    for found in imports_inside():
        if found.importer not in faces:
            importers[found.imported].add(found.importer)
    single = [
        f"{name} < {min(by)}"
        for name, by in importers.items()
        if len(by) == 1 and name not in faces
    ]
    return sorted(single), len(modules().keys() - faces)


@cache
def nodes_of_rooms() -> dict[str, int]:
    """The syntax nodes of each room (`ast.walk`), and of the tests."""
    count: Counter[str] = Counter()
    for module, path in modules().items():
        count[room_of(module) or "core"] += _nodes_in(trees()[path])
    return {
        **count,
        "tests": sum(_nodes_in(ast.parse(path.read_text())) for path in TESTS.rglob("*.py")),
    }


def budgets() -> dict[str, int]:
    """The most nodes that each room may have, by CONTRIBUTING.md."""
    return {
        row["room"]: int(row["nodes"].replace(",", ""))
        for row in BUDGET.finditer(GUIDE.read_text())
    }


def rooms_over_budget() -> tuple[list[str], int]:
    allowed = budgets()
    return [
        f"{room}: {nodes:,} nodes, {allowed.get(room, 0):,} allowed"
        for room, nodes in nodes_of_rooms().items()
        if nodes > allowed.get(room, 0)
    ], 0


def files_of_features() -> dict[str, list[Path]]:
    """The files that carry each feature, by CONTRIBUTING.md, whose patterns are those of
    `Path.glob`.
    """
    return {
        row["name"]: [
            path
            for pattern in re.findall(r"`([^`]+)`", row["files"])
            for path in sorted(
                PACKAGE.glob(f"{pattern}/*.py" if pattern.endswith("**") else pattern)
            )
        ]
        for row in FEATURE.finditer(GUIDE.read_text())
    }


def nodes_of_features() -> dict[str, int]:
    """The syntax nodes of each feature's files."""
    return {
        name: sum(_nodes_in(trees()[path]) for path in files)
        for name, files in files_of_features().items()
    }


def lower_budgets() -> None:
    """Write each room's nodes into CONTRIBUTING.md, where they are fewer than its budget, and each
    feature's.
    """
    nodes, features = nodes_of_rooms(), nodes_of_features()

    def row(found: re.Match[str]) -> str:
        least = min(nodes[found["room"]], int(found["nodes"].replace(",", "")))
        return f"| {found['room']} | {least:,} |"

    def feature(found: re.Match[str]) -> str:
        return found[0].replace(f"| {found['nodes']} |", f"| {features[found['name']]:,} |")

    GUIDE.write_text(FEATURE.sub(feature, BUDGET.sub(row, GUIDE.read_text())))


def density() -> float:
    """How many syntax nodes a reader finds on a line."""
    return sum(map(_nodes_in, trees().values())) / sum(
        len(path.read_text().splitlines()) for path in modules().values()
    )


def words(pattern: str) -> Callable[[], tuple[list[str], int]]:
    """Count a word in docstrings and messages, against all of their words."""
    word = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)

    def count() -> tuple[list[str], int]:
        found = [
            f"{place}: {text[max(0, match.start() - 40) : match.end() + 40]}".replace("\n", " ")
            for place, text in _texts()
            for match in word.finditer(text)
        ]
        return found, sum(len(text.split()) for _, text in _texts())

    return count


def classes_of_one_name() -> tuple[list[str], int]:
    """Names of public classes that stand in several files."""
    files = defaultdict(set)
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].add(_shown(path))
    return [
        f"{name}: {', '.join(sorted(them))}"
        for name, them in sorted(files.items())
        if len(them) > 1
    ], len(files)


def imports_in_functions_of_cli() -> tuple[list[str], int]:
    places = [
        f"{_place(path, node)}: {ast.unparse(statement)}"
        for path, node in _nodes()
        if isinstance(node, FUNCTION) and path.is_relative_to(PACKAGE / "cli")
        for statement in _own(node)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    return places, 0


def mentions_of_other_systems() -> tuple[list[str], int]:
    """Mentions of KAOS and Octopus outside `interop`, which holds what is theirs, and the dialects
    that speak them.
    """
    return [
        f"{_shown(path)}:{number} {name}"
        for path in modules().values()
        if not path.is_relative_to(PACKAGE / "interop")
        and path.name not in ("kaos.py", "octopus.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for name in re.findall(r"kaos|octopus", line, re.IGNORECASE)
    ], 0


MEASURES = (
    Measure(
        "files-above-500-lines", 0, long_files, "give one of the things in it a file of its own"
    ),
    Measure(
        "modules-with-one-importer",
        0.24,
        modules_with_one_importer,
        "put the small ones into their importers",
    ),
    Measure(
        "rooms-over-budget",
        0,
        rooms_over_budget,
        "make it smaller, or say in CONTRIBUTING.md why it grows",
    ),
    Measure(
        "word-what", 0.0060, words("what"), "name the thing: the usual noun instead of a clause"
    ),
    Measure(
        "words-of-telling",
        0.0010,
        words("told|said|says|tells"),
        "use the verb of the field",
    ),
    Measure(
        "words-is-no", 0.0002, words("(?<!there )(?:is|are) no(?! longer)"), "write `is not a`"
    ),
    Measure(
        "classes-of-one-name", 0.005, classes_of_one_name, "let the second one take its room's name"
    ),
    Measure(
        "mentions-of-other-systems",
        38,
        mentions_of_other_systems,
        "put what is another system's into interop",
    ),
    Measure(
        "imports-in-cli-functions", 28, imports_in_functions_of_cli, "import at the top of the file"
    ),
)


def constants() -> Iterator[tuple[str, float, str]]:
    """Constants of modules by unit (`s` or `B`), smallest first: the unit, the value, and where it
    stands.
    """
    found = [
        (unit, value, f"{room_of(module):10} {name:28} {_shown(path)}")
        for module, path in modules().items()
        for name in _constants_of(trees()[path])
        if (quantity := _quantity(name, getattr(importlib.import_module(module), name)))
        for unit, value in [quantity]
    ]
    return iter(sorted(found, key=lambda one: (one[0] != "s", one[1])))


def _constants_of(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (
            target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()
        )


def _quantity(name: str, value: object) -> tuple[str, float] | None:
    words = name.strip("_").split("_")
    match value:
        case timedelta():
            return "s", value.total_seconds()
        case int() | float() if not isinstance(value, bool) and words[-1] in ("SECONDS", "TIMEOUT"):
            return "s", value
        case int() if words[-1] in ("BYTES", "SIZE"):
            return "B", value
    return None


@cache
def _nodes() -> tuple[tuple[Path, ast.Module | ast.ClassDef | FUNCTION], ...]:
    return tuple(
        (path, node)
        for path, tree in trees().items()
        for node in statements(tree)
        if isinstance(node, ast.Module | ast.ClassDef | FUNCTION)
    )


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, but not in another one within it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, FUNCTION):
            yield child
            yield from _own(child)


def _nodes_in(tree: ast.AST) -> int:
    return sum(1 for _ in ast.walk(tree))


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    """Docstrings, also those below fields, and messages: each with its place."""
    return tuple(
        (f"{_shown(path)}:{node.lineno}", node.value)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and len(node.value.split()) >= MESSAGE_WORDS
    )


def _place(path: Path, node: ast.AST) -> str:
    return f"{_shown(path)}:{getattr(node, 'lineno', 1)} {getattr(node, 'name', '')}".rstrip()


def _shown(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def _main(names: list[str]) -> None:
    if names == ["constants"]:
        for unit, value, place in constants():
            print(f"{value:>14,.12g} {unit}  {place}")
        return
    if names == ["rooms"]:
        for room, nodes in nodes_of_rooms().items():
            print(f"{nodes:>9,}  {room}")
        print(f"{density():>9.2f}  nodes per line")
        return
    if names == ["budgets"]:
        return lower_budgets()
    for measure in MEASURES:
        if not names or measure.name in names:
            print(measure)
            print(*(f"  {place}\n" for place in measure.places if names), sep="", end="")


if __name__ == "__main__":
    _main(sys.argv[1:])
