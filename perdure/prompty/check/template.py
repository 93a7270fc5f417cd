"""Checks an asset's template: its syntax, variables and roles, and its differences between Jinja2
and Nunjucks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import TemplateSyntaxError, nodes

from ...errors import RenderError
from ...json_types import JsonView
from ...text import did_you_mean
from ..jinja import lex_jinja, parse_jinja, used_variables
from ..render import FORMATS, ROLES, find_markers
from ..shorthands import maps_in
from .findings import Finding, bindings_of, names_of, unknown_properties, warning

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
_FURTHER_METHODS = frozenset(
    ("indexOf", "lastIndexOf", "push", "forEach", "reduce", "some", "every", "find", "flat")
)
_FURTHER_METHODS |= {
    "padStart",
    "padEnd",
    "repeat",
    "match",
    "replaceAll",
    "trimStart",
    "trimEnd",
    "splice",
    "shift",
}
_PYTHON_NAMES = frozenset(
    name for kind in (dict, list, str) for name in dir(kind) if not name.startswith("_")
)
_LISTS = frozenset({"array", "thread"})
_CONTAINERS = frozenset({*_LISTS, "object"})


def word_differences(source: str) -> list[Difference]:
    """Return the syntax that Nunjucks can read and Jinja2 can't; [] if the source ends before
    any.
    """
    found: list[Difference] = []
    before: tuple[str, str] = ("", "")
    try:
        for line, token, value in lex_jinja(source):
            if (
                before[0] == "operator"
                and before[1] in ("==", "!=")
                and (token, value) == ("operator", "=")
            ):
                found.append(
                    Difference(line, f"`{before[1]}=` is not known here: write `{before[1]}`")
                )
            if before[0] == "block_begin" and token == "name" and value in _TAGS:
                found.append(
                    Difference(line, f"`{value}` is Nunjucks' own: write `{_TAGS[value]}`")
                )
            if before == ("operator", "|") and token == "name" and value in _FILTERS:
                found.append(
                    Difference(line, f"the filter `{value}` is Nunjucks' own{_FILTERS[value]}")
                )
            if token != "whitespace":
                before = (token, value)
    except TemplateSyntaxError:
        pass
    return found


def differences(tree: nodes.Template, kinds: Kinds) -> Iterator[Difference]:
    """Yield the constructs that Jinja2 reads, but treats differently."""
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    for node_type, find in _FINDERS.items():
        for node in tree.find_all(node_type):
            parts = node.nodes if isinstance(node, nodes.Output) else [node]
            for part in parts:
                if not (isinstance(part, nodes.Getattr) and id(part) in called):
                    yield from (Difference(part.lineno, text) for text in find(part, kinds))


def _printing_findings(node: Any, kinds: Kinds) -> Iterator[str]:
    kind, name = _kind_of_node(node, kinds), _name(node)
    if kind == "array":
        yield (
            f"a list is printed as JSON here, as `a,b` by Nunjucks: write `{name}|join(',')` or `"
            f"{name}|tojson`"
        )
    elif kind == "object":
        yield (
            "a map is printed as JSON here, as `[object Object]` by Nunjucks: write `"
            f"{name}|tojson`"
        )


def _condition(node: Any, kinds: Kinds) -> Iterator[str]:
    tested = node.node if isinstance(node, nodes.Not) else node.test
    if _kind_of_node(tested, kinds) in _CONTAINERS:
        yield (
            f"an empty list or map is false here, true for Nunjucks: write `{_name(tested)}|length`"
        )


def _concat(node: Any, kinds: Kinds) -> Iterator[str]:
    if any(_kind_of_node(child, kinds) != "string" for child in node.nodes):
        yield (
            "`~` joins the text of none, true, lists and maps as Python writes it: print each "
            "value by itself"
        )


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
        yield (
            f"`.{method}()` is JavaScript: write `{_METHODS[method].format(_name(node.node.node))}`"
        )
    elif method in _FURTHER_METHODS:
        yield (
            f"`.{method}()` is JavaScript, and unknown here: use filters "
            "(jinja.palletsprojects.com)"
        )


def _loop(node: Any, kinds: Kinds) -> Iterator[str]:
    if isinstance(node.target, nodes.Tuple) and not isinstance(
        node.iter, nodes.Call | nodes.Filter
    ):
        name = _name(node.iter)
        yield (
            f"two names take the parts of each item here; where {name} is a map, write `"
            f"{name}.items()`"
        )


def _comparison(node: Any, kinds: Kinds) -> Iterator[str]:
    sides = [node.expr, *(operand.expr for operand in node.ops)]
    if any(isinstance(side, nodes.Const) and side.value is None for side in sides):
        yield "a missing value equals none in Nunjucks only: add `is defined`"


def _slice(node: Any, kinds: Kinds) -> Iterator[str]:
    if isinstance(node.arg, nodes.Slice) and _kind_of_node(node.node, kinds) not in _LISTS:
        yield "a slice of a text is a text here, a list of characters for Nunjucks"


_FINDERS: dict[type[nodes.Node], Callable[[Any, Kinds], Iterator[str]]] = {
    nodes.Output: _printing_findings,
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


def _kind_of_node(node: Any, kinds: Kinds) -> str | None:
    """Return the kind of an expression's value, if the template and the declared inputs determine
    it.
    """
    if isinstance(node, nodes.Name):
        return kinds.get(node.name)
    if isinstance(node, nodes.List | nodes.Tuple):
        return "array"
    if isinstance(node, nodes.Dict):
        return "object"
    return "string" if isinstance(node, nodes.Const) and isinstance(node.value, str) else None


def _name(node: Any) -> str:
    """Return the name of an expression for messages: its source if that is short, else `x`."""
    if isinstance(node, nodes.Name):
        return str(node.name)
    if isinstance(node, nodes.Getattr):
        return f"{_name(node.node)}.{node.attr}"
    return "x"


_MUSTACHE = re.compile(r"\{\{[#^/]")
_MUSTACHE_HINT = ". It looks like Mustache, which is not rendered here: write it in Jinja2"
_HISTORY_ROLE = r"-?\s*+\w++(?:\.role|\[['\"]role['\"]\])\s*+-?\}\}"
_ROLE_OF_A_VALUE = re.compile(
    rf"^[^\S\n]*+#?+[^\S\n]*+\{{\{{(?!{_HISTORY_ROLE})[^{{}}\n]*+\}}\}}[^\S\n]*+:[^\S\n]*+$",
    re.MULTILINE,
)
"""A role that a value determines, except `{{item.role}}:` of a history."""
_LONE_WORD = re.compile(r"^[^\S\n]*+#?+[^\S\n]*+([A-Za-z]++)[^\S\n]*+:[^\S\n]*+$", re.MULTILINE)


def template_findings(asset: JsonView, first_line: int) -> Iterator[Finding]:
    """Yield the errors and likely mistakes in the instructions, which begin on line `first_line` of
    the file.
    """
    kind = _kind(asset, "format", "jinja2")
    if kind not in FORMATS:
        yield Finding(
            ("template", "format", "kind"),
            f"No renderer registered for key: {kind}. Expected {' or '.join(FORMATS)}",
        )
    if _kind(asset, "parser", "prompty") != "prompty":
        yield Finding(
            ("template", "parser", "kind"),
            f"No parser registered for key: {_kind(asset, 'parser', '')}. Expected prompty",
        )
    text = asset.get("instructions")
    if not isinstance(text, str) or not text.strip():
        yield warning((), "no instructions: the body is empty")
        return
    if kind in FORMATS:
        words = word_differences(text) if kind == "nunjucks" else []
        yield from (Finding((), word.text, line=first_line + word.line - 1) for word in words)
        yield from _variables(asset, text, first_line, kind, may_fail=bool(words))
    yield from _roles(asset, text, first_line)


def _kind(asset: JsonView, part: str, default: str) -> Any:
    return _setting(asset, part, "kind", default)


def _setting(asset: JsonView, part: str, key: str, default: Any) -> Any:
    template = asset.get("template")
    config = template.get(part) if isinstance(template, Mapping) else None
    return config.get(key, default) if isinstance(config, Mapping) else default


def _variables(
    asset: JsonView, text: str, first_line: int, kind: str, *, may_fail: bool
) -> Iterator[Finding]:
    """Yield the findings about variables; with `may_fail`, the template's error has been reported
    already.
    """
    try:
        tree = parse_jinja(text)
        used = used_variables(tree)
    except RenderError as error:
        line = first_line + (error.line or 1) - 1
        if not may_fail:
            hint = _MUSTACHE_HINT if _MUSTACHE.search(text) else ""
            yield Finding((), re.sub(r" \(line \d+\)$", "", str(error)) + hint, line=line)
        return
    if kind == "nunjucks":
        kinds = {
            str(item.get("name")): str(item.get("kind")) for _, item in maps_in(asset.get("inputs"))
        }
        for difference in differences(tree, kinds):
            yield warning(
                (), f"Nunjucks differs: {difference.text}", first_line + difference.line - 1
            )
    yield from undeclared_variables(asset, used, first_line)
    yield from _unused_inputs(asset, used)


def undeclared_variables(
    asset: JsonView, used: Mapping[str, int], first_line: int
) -> Iterator[Finding]:
    """Yield the used variables that are not declared inputs, each with its line."""
    declared = names_of(asset.get("inputs"))
    for name, line in used.items():
        if name not in declared:
            hint = did_you_mean(name, declared)
            yield warning(
                (), f"the variable {name!r} is not a declared input{hint}", first_line + line - 1
            )


def _unused_inputs(asset: JsonView, used: Mapping[str, int]) -> Iterator[Finding]:
    bound = {source for _, _, source in bindings_of(asset)}
    for place, item in maps_in(asset.get("inputs"), ("inputs",)):
        name = item.get("name")
        if isinstance(name, str) and name and name not in used and name not in bound:
            consequence = (
                "its messages come last" if item.get("kind") == "thread" else "it has no effect"
            )
            yield warning(place, f"the input {name!r} is not used in the template: {consequence}")


def _roles(asset: JsonView, text: str, first_line: int) -> Iterator[Finding]:
    model = asset.get("model")
    if isinstance(model, Mapping) and model.get("apiType") in ("embedding", "image"):
        return
    if not any(find_markers(text)):
        yield warning((), "no role marker: the whole text becomes one system message", first_line)
    if _setting(asset, "format", "strict", True) is True:
        for match in _ROLE_OF_A_VALUE.finditer(text):
            line = first_line + text.count("\n", 0, match.start())
            advice = (
                "declare an input of kind thread, or loop over a history with `{{item.role}}:` "
                "(user, assistant)"
            )
            yield warning(
                (), f"{match[0].strip()!r}: a role from a value is refused (§6.3): {advice}", line
            )
    for match in _LONE_WORD.finditer(text):
        word = match[1].lower()
        hint = did_you_mean(word, ROLES)
        if word not in ROLES and (hint or word == "tool"):
            line = first_line + text.count("\n", 0, match.start())
            yield warning((), f"{match[0].strip()!r} is not a role marker{hint}", line)


def doubts(asset: JsonView, written: JsonView, first_line: int) -> Iterator[Finding]:
    """Yield the properties without effect, and the template's variables that are not inputs.

    `asset` is in canonical form, `written` in the author's; the instructions begin on line
    `first_line`.
    """
    yield from unknown_properties(asset, written)
    try:
        used = used_variables(parse_jinja(str(asset.get("instructions") or "")))
    except RenderError:
        return  # Rendering reports it.
    yield from undeclared_variables(asset, used, first_line)
