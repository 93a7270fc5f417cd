"""Functions are small and flat, and public ones say what they do and what they raise."""

from __future__ import annotations

import ast
import builtins
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from .house import ROOT, STATEMENT, listed, trees

MAX_MEDIAN, MAX_TENTH, MAX_DEEP, DEPTH = 6, 17, 3, 3
"""Lines of the median body and of the one that a tenth exceeds; how many functions nest deeper than
`DEPTH` blocks."""
MIN_DOCUMENTED = 0.8

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
SCOPE = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
DEFINITION = FUNCTION | ast.ClassDef
BLOCK = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.Match


@dataclass(frozen=True)
class Definition:
    """A function, method or class as it stands in a file."""

    place: str
    """File, line and qualified name."""
    node: FUNCTION | ast.ClassDef
    is_public: bool
    bases: tuple[str, ...] = ()
    """Of a method: the names of what its class derives from."""

    def __str__(self) -> str:
        return f"{self.place} ({self.lines} lines)"

    @property
    def docstring(self) -> str:
        """Its own, or the one of the method that it overrides, as `inspect.getdoc` gives it."""
        own = ast.get_docstring(self.node)
        overridden = (_methods().get((base, self.node.name)) for base in self.bases)
        return own or next((method.docstring for method in overridden if method), "")

    @property
    def lines(self) -> int:
        """Of the body, without the docstring."""
        body = self.node.body[1:] if ast.get_docstring(self.node) else self.node.body
        return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@cache
def definitions() -> tuple[Definition, ...]:
    """Everything that the package defines, functions within functions too; those are not public."""
    return tuple(
        found
        for path, tree in trees().items()
        for found in _defined_in(tree, str(path.relative_to(ROOT)))
    )


@cache
def _methods() -> dict[tuple[str, str], Definition]:
    """Methods by the names of their class and their own. Two classes of one name would share
    them.
    """
    return {
        (class_name, found.node.name): found
        for found in functions()
        if (class_name := found.place.rpartition(" ")[2].rpartition(".")[0])
    }


def functions() -> list[Definition]:
    return [found for found in definitions() if not isinstance(found.node, ast.ClassDef)]


def test_the_median_function_is_small() -> None:
    median = statistics.median(found.lines for found in functions())
    assert median <= MAX_MEDIAN, f"the median body has {median} lines"


def test_few_functions_are_long() -> None:
    tenth = statistics.quantiles((found.lines for found in functions()), n=10)[-1]
    longest = sorted(functions(), key=lambda found: -found.lines)[:10]
    assert tenth <= MAX_TENTH, listed(
        "a tenth of all functions is too long; split these first", longest
    )


def test_few_functions_nest_deeply() -> None:
    deep = [found for found in functions() if _depth(found.node.body) > DEPTH]
    assert len(deep) <= MAX_DEEP, listed(
        "return early, or make a block a function of its own", deep
    )


def test_most_of_what_is_public_says_what_it_is() -> None:
    public = [found for found in definitions() if found.is_public and not _is_overload(found)]
    silent = [found for found in public if not found.docstring]
    documented = 1 - len(silent) / len(public)
    assert documented >= MIN_DOCUMENTED, listed(
        f"{documented:.1%} have docstrings; these have none", silent
    )


def test_public_functions_say_what_they_raise() -> None:
    silent = [found for found in functions() if found.is_public and _hides(found)]
    assert not silent, listed("say in the docstring what is raised, and when", silent)


def _is_overload(found: Definition) -> bool:
    """Its docstring is the one of the function that follows."""
    return any(
        isinstance(one, ast.Name) and one.id == "overload" for one in found.node.decorator_list
    )


def _hides(found: Definition) -> bool:
    raised = _raised_by(found.node)
    return bool(raised) and not any(word in found.docstring for word in ("raise", "Raise", *raised))


def _defined_in(
    node: ast.AST, file: str, prefix: str = "", is_public: bool = True, bases: tuple[str, ...] = ()
) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, DEFINITION):
            name = prefix + child.name
            shown = is_public and not child.name.startswith("_")
            yield Definition(f"{file}:{child.lineno} {name}", child, shown, bases)
            of_class = isinstance(child, ast.ClassDef)
            yield from _defined_in(child, file, f"{name}.", shown and of_class, _bases_of(child))
        elif isinstance(child, STATEMENT):
            yield from _defined_in(child, file, prefix, is_public, bases)


def _bases_of(node: ast.AST) -> tuple[str, ...]:
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return tuple(ast.unparse(base).partition("[")[0] for base in bases)


def _depth(statements: list[ast.stmt]) -> int:
    """How many blocks are inside each other; `elif` is no further block, and a function in it is
    counted by itself.
    """
    return max((1 + _depth_within(one) for one in statements if isinstance(one, BLOCK)), default=0)


def _depth_within(block: BLOCK) -> int:
    branches = [list(getattr(block, name, [])) for name in ("body", "orelse", "finalbody")]
    if isinstance(block, ast.If) and len(block.orelse) == 1 and isinstance(block.orelse[0], ast.If):
        branches[1] = []
        return max(_depth(branches[0]), _depth_within(block.orelse[0]))
    branches += [
        part.body for part in (*getattr(block, "handlers", []), *getattr(block, "cases", []))
    ]
    return max(_depth(branch) for branch in branches)


def _raised_by(function: ast.AST) -> set[str]:
    """The errors that the body itself makes and raises, of perdure or built in; not those of
    functions in it.
    """
    raised: set[str] = set()
    for child in ast.iter_child_nodes(function):
        match child:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name))) if name in _errors():
                raised.add(name)
            case ast.stmt() | ast.ExceptHandler() | ast.match_case() if not isinstance(
                child, SCOPE
            ):
                raised |= _raised_by(child)
    return raised


@cache
def _errors() -> frozenset[str]:
    types = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
    built_in = {name for name, value in types.items() if issubclass(value, Exception)}
    own = {found.node.name for found in definitions() if isinstance(found.node, ast.ClassDef)}
    return frozenset(built_in | own)
