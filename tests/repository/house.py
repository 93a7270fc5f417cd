"""The rooms of the package and what their files import, read from the source: what the tests of the
house share.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "perdure"

LAYERS = (
    ("core",),
    ("settings",),
    ("loop", "prompty", "payloads"),
    ("protocol",),
    ("providers", "tools", "history"),
    ("workflows", "activities"),
    ("trace",),
    ("worker",),
    ("client",),
    ("testing", "interop"),
    ("gateway",),
    ("cli",),
)
"""The rooms, bottom to top. A file imports from its own room and from layers below it.
CONTRIBUTING.md shows this."""

NEVER = {
    "tools": ("loop",),
    "workflows": ("prompty", "providers"),
}
"""Rooms on lower layers that a room leaves alone all the same."""

NETWORK = (
    "aiohttp",
    "anthropic",
    "http",
    "httpx",
    "httpx2",
    "openai",
    "socket",
    "ssl",
    "subprocess",
    "urllib",
)
WITHOUT = {
    "core": ("temporalio", "yaml", "jinja2", *NETWORK),
    "loop": ("temporalio", "yaml", "jinja2", *NETWORK),
    "prompty": ("temporalio", *NETWORK),
    "protocol": ("yaml", "jinja2", *NETWORK),
    "providers": ("temporalio",),
    "tools": ("temporalio",),
    "workflows": ("yaml", "jinja2", *NETWORK),
}
"""Libraries that the files of a room do not import."""

STATEMENT = ast.stmt | ast.ExceptHandler | ast.match_case
"""What statements stand in, and they themselves."""

FRONT_DOOR = "perdure"
"""`perdure/__init__.py`, which names what the rooms have for others. It belongs to no room."""

SIDE_DOOR = "perdure.spec"
"""Names a part of the same. It belongs to no room either."""

DOORS = (FRONT_DOOR, SIDE_DOOR)


@dataclass(frozen=True)
class Import:
    """One import statement's target, wherever in the file it stands."""

    importer: str
    """The module that has the statement, such as `perdure.loop.tool_round`."""
    line: int
    imported: str
    """A module of perdure, or what another library's module is called."""

    def __str__(self) -> str:
        return f"{modules()[self.importer].relative_to(ROOT)}:{self.line} imports {self.imported}"


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name; a folder's `__init__` has the folder's
    name.
    """
    return {_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def trees() -> dict[Path, ast.Module]:
    """The parsed source of every module."""
    return {path: ast.parse(path.read_text()) for path in modules().values()}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all statements in it: `ast.walk` without expressions, which are most of what it
    gives.
    """
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, STATEMENT):
            yield from statements(child)


@cache
def rooms() -> frozenset[str]:
    """The folders directly in the package that hold modules, and `core` for the modules beside
    them.
    """
    return frozenset(room_of(module) for module in modules() if module not in DOORS)


def room_of(module: str) -> str:
    """The room of one of the package's modules; "" for the two doors."""
    path = modules()[module].relative_to(PACKAGE)
    if module in DOORS:
        return ""
    if path.name == "__main__.py":
        return "cli"
    return path.parts[0] if len(path.parts) > 1 else "core"


def layer_of(room: str) -> int:
    """How high the room lies, from 0 for the core. Raises `KeyError` for a room that has no place
    yet.
    """
    return {name: number for number, layer in enumerate(LAYERS) for name in layer}[room]


@cache
def imports() -> tuple[Import, ...]:
    """All imports of all files, those in functions and under TYPE_CHECKING too."""
    return tuple(dict.fromkeys(found for module in modules() for found in _imports_of(module)))


def imports_inside() -> Iterator[Import]:
    """Those of one module of the package by another; the two doors' are left out."""
    return (
        found
        for found in imports()
        if found.imported in modules() and found.importer not in (FRONT_DOOR, SIDE_DOOR)
    )


def listed(what_to_do: str, found: Iterable[object]) -> str:
    """A test's message: what to do, and a line for each place where."""
    return "\n  ".join([what_to_do, *map(str, found)])


def _imports_of(module: str) -> Iterator[Import]:
    for node in statements(trees()[modules()[module]]):
        match node:
            case ast.Import(names=names):
                yield from (Import(module, node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(names=names):
                base = _base_of(module, node)
                yield from (
                    Import(module, node.lineno, _target(base, alias.name)) for alias in names
                )


def _base_of(module: str, node: ast.ImportFrom) -> str:
    """What stands between `from` and `import`, as an absolute name."""
    if not node.level:
        return node.module or ""
    folders = modules()[module].relative_to(ROOT).parts[: -node.level]
    return ".".join([*folders, *([node.module] if node.module else [])])


def _target(base: str, name: str) -> str:
    """`from package import module` imports the module; any other name comes from what `base`
    names.
    """
    return f"{base}.{name}" if f"{base}.{name}" in modules() else base


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
