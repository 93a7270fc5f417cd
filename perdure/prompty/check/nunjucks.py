"""Finds what a Nunjucks template does otherwise in Jinja2, which renders it here (PROTOCOLS §8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import TemplateSyntaxError, nodes

from ..jinja import lex_jinja

Kinds = Mapping[str, str]
"""The kind of each declared input."""


class Difference(NamedTuple):
    """A construct that the two engines treat differently."""

    line: int
    """Of the template, counted from 1."""
    text: str


_TAGS = {
    "elseif": "elif",
    "verbatim": "raw",
    "switch": "if` and `elif",
    "asyncEach": "for",
    "asyncAll": "for",
    "ifAsync": "if",
}
_FILTERS = {"dump": ": write `tojson`", "nl2br": ": write `replace('\\n', '<br />')`"}
_METHODS = {
    "toUpperCase": "{}|upper",
    "toLowerCase": "{}|lower",
    "toString": "{}|string",
    "trim": "{}|trim",
    "join": "{}|join",
    "includes": "… in {}",
    "startsWith": "{}.startswith(…)",
    "endsWith": "{}.endswith(…)",
    "reverse": "{}|reverse",
    "sort": "{}|sort",
    "map": "{}|map",
    "filter": "{}|select",
    "concat": "{} + …",
    "toFixed": "'%.2f'|format({})",
    "slice": "{}[…:…]",
    "substring": "{}[…:…]",
    "substr": "{}[…:…]",
    "charAt": "{}[…]",
    "hasOwnProperty": "… in {}",
}
_FURTHER_METHODS = frozenset(("indexOf", "lastIndexOf", "push", "forEach", "reduce", "some", "every", "find", "flat"))
_FURTHER_METHODS |= {"padStart", "padEnd", "repeat", "match", "replaceAll", "trimStart", "trimEnd", "splice", "shift"}
_PYTHON_NAMES = frozenset(name for kind in (dict, list, str) for name in dir(kind) if not name.startswith("_"))
_LISTS = frozenset({"array", "thread"})
_CONTAINERS = frozenset({*_LISTS, "object"})


def word_differences(source: str) -> list[Difference]:
    """What Jinja2 can't even read, and Nunjucks can; [] when the source breaks off before it."""
    found: list[Difference] = []
    before: tuple[str, str] = ("", "")
    try:
        for line, token, value in lex_jinja(source):
            if before[0] == "operator" and before[1] in ("==", "!=") and (token, value) == ("operator", "="):
                found.append(Difference(line, f"`{before[1]}=` is not known here: write `{before[1]}`"))
            if before[0] == "block_begin" and token == "name" and value in _TAGS:
                found.append(Difference(line, f"`{value}` is Nunjucks' own: write `{_TAGS[value]}`"))
            if before == ("operator", "|") and token == "name" and value in _FILTERS:
                found.append(Difference(line, f"the filter `{value}` is Nunjucks' own{_FILTERS[value]}"))
            if token != "whitespace":
                before = (token, value)
    except TemplateSyntaxError:
        pass
    return found


def differences(tree: nodes.Template, kinds: Kinds) -> Iterator[Difference]:
    """What Jinja2 reads, and treats differently."""
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    for node_type, find in _FINDERS.items():
        for node in tree.find_all(node_type):
            parts = node.nodes if isinstance(node, nodes.Output) else [node]
            for part in parts:
                if not (isinstance(part, nodes.Getattr) and id(part) in called):
                    yield from (Difference(part.lineno, text) for text in find(part, kinds))


def _printed(node: Any, kinds: Kinds) -> Iterator[str]:
    kind, name = _kind(node, kinds), _name(node)
    if kind == "array":
        yield f"a list is printed as JSON here, as `a,b` by Nunjucks: write `{name}|join(',')` or `{name}|tojson`"
    elif kind == "object":
        yield f"a map is printed as JSON here, as `[object Object]` by Nunjucks: write `{name}|tojson`"


def _condition(node: Any, kinds: Kinds) -> Iterator[str]:
    tested = node.node if isinstance(node, nodes.Not) else node.test
    if _kind(tested, kinds) in _CONTAINERS:
        yield f"an empty list or map is false here, true for Nunjucks: write `{_name(tested)}|length`"


def _concat(node: Any, kinds: Kinds) -> Iterator[str]:
    if any(_kind(child, kinds) != "string" for child in node.nodes):
        yield "`~` joins the text of none, true, lists and maps as Python writes it: print each value by itself"


def _attribute(node: Any, kinds: Kinds) -> Iterator[str]:
    owner = _name(node.node)
    if node.attr == "length":
        yield f"`.length` is a property in Nunjucks only: write `{owner}|length`"
    elif node.attr in _PYTHON_NAMES and owner != "loop":
        yield f"`.{node.attr}` is a method here: write `{owner}['{node.attr}']`"


def _call(node: Any, kinds: Kinds) -> Iterator[str]:
    if not isinstance(node.node, nodes.Getattr):
        return
    method = node.node.attr
    if method in _METHODS:
        yield f"`.{method}()` is JavaScript: write `{_METHODS[method].format(_name(node.node.node))}`"
    elif method in _FURTHER_METHODS:
        yield f"`.{method}()` is JavaScript, and unknown here: use filters (jinja.palletsprojects.com)"


def _loop(node: Any, kinds: Kinds) -> Iterator[str]:
    if isinstance(node.target, nodes.Tuple) and not isinstance(node.iter, nodes.Call | nodes.Filter):
        name = _name(node.iter)
        yield f"two names take the parts of each item here; where {name} is a map, write `{name}.items()`"


def _comparison(node: Any, kinds: Kinds) -> Iterator[str]:
    sides = [node.expr, *(operand.expr for operand in node.ops)]
    if any(isinstance(side, nodes.Const) and side.value is None for side in sides):
        yield "what is missing equals none in Nunjucks only: write `is defined` beside it"


def _slice(node: Any, kinds: Kinds) -> Iterator[str]:
    if isinstance(node.arg, nodes.Slice) and _kind(node.node, kinds) not in _LISTS:
        yield "a slice of a text is a text here, a list of characters for Nunjucks"


_FINDERS: dict[type[nodes.Node], Callable[[Any, Kinds], Iterator[str]]] = {
    nodes.Output: _printed,
    nodes.If: _condition,
    nodes.CondExpr: _condition,
    nodes.Not: _condition,
    nodes.Concat: _concat,
    nodes.Getattr: _attribute,
    nodes.Call: _call,
    nodes.For: _loop,
    nodes.Compare: _comparison,
    nodes.Getitem: _slice,
}


def _kind(node: Any, kinds: Kinds) -> str | None:
    """The kind of an expression's value, where the template and the declared inputs tell it."""
    if isinstance(node, nodes.Name):
        return kinds.get(node.name)
    if isinstance(node, nodes.List | nodes.Tuple):
        return "array"
    if isinstance(node, nodes.Dict):
        return "object"
    return "string" if isinstance(node, nodes.Const) and isinstance(node.value, str) else None


def _name(node: Any) -> str:
    """How a message names an expression: as it is written where that is short, else `x`."""
    if isinstance(node, nodes.Name):
        return str(node.name)
    if isinstance(node, nodes.Getattr):
        return f"{_name(node.node)}.{node.attr}"
    return "x"
