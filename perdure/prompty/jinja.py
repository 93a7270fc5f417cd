"""Renders Jinja2 templates: in a sandbox, with portable printing, keeping the template's own text apart (§5)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import ChainableUndefined, Environment, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.defaults import DEFAULT_NAMESPACE
from jinja2.runtime import Context
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from ..errors import RenderError
from .sandbox import Counting, Sandbox

MAX_SOURCE = 2**20
"""Characters of a template."""
MAX_TAGS = 20_000
"""`{{` and `{%` in a template: each costs time, read and rendered."""
HISTORY_ROLES = ("user", "assistant")
"""Roles that a value may name in a template's `{{item.role}}:`; instructions are the template's own (§6.3)."""
_GLOBALS = frozenset(DEFAULT_NAMESPACE)


def render_jinja(source: str, inputs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The rendering in pieces: the template's own literals, and the values between them.

    A value is what one expression printed, even when that is nothing, so there is one more literal than there are
    values. Raises RenderError, for a syntax error with its line.
    """
    token = f"\x02{secrets.randbits(128)}\x03"
    environment = _environment(token)
    tree = parse_jinja(source, environment)
    _ValueMarking(token).visit(Counting().visit(tree))
    try:
        rendered = environment.from_string(tree).render(dict(inputs))
    except (TemplateSyntaxError, SyntaxError) as error:
        raise _syntax_error(error) from None
    except RenderError:
        raise
    except Exception as error:  # an expression of the template can raise anything
        raise RenderError(f"Template can't be rendered: {type(error).__name__}: {error}") from error
    pieces = rendered.split(token)
    return pieces[0::2], pieces[1::2]


def parse_jinja(source: str, environment: Sandbox | None = None) -> nodes.Template:
    """The template's syntax tree. Raises RenderError, with the line, for a syntax error, and for a huge template."""
    _require_small(source)
    try:
        return (environment or _environment("")).parse(source)
    except TemplateSyntaxError as error:
        raise _syntax_error(error) from None
    except RecursionError:
        raise RenderError("Template syntax error: nested too deeply") from None


def lex_jinja(source: str) -> Iterator[tuple[int, str, str]]:
    """The template's words: line, sort and text of each. Raises TemplateSyntaxError where it can't be read on."""
    return iter(_environment("").lex(source))


def used_variables(tree: nodes.Template) -> dict[str, int]:
    """The names that the template takes from its inputs, each with the line of its first use.

    Raises RenderError, with the line, when the template uses a filter or a test that does not exist.
    """
    names_in = _NamesIn(tree.environment or _environment(""))
    try:
        names_in.visit(tree)
    except TemplateSyntaxError as error:
        raise _syntax_error(error) from None
    names = names_in.undeclared_identifiers - _GLOBALS
    uses = [(node.lineno, node.name) for node in tree.find_all(nodes.Name) if node.name in names]
    return {name: line for line, name in sorted(uses, reverse=True)}


def portable_text(value: Any) -> str:
    """The value as every Prompty runtime prints it: null as "", True as "true", 1.0 as "1", maps and lists as JSON."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, Undefined):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


class _ValueMarking(NodeTransformer):
    """Puts a token before and after everything that the template prints, except its own literal text.

    What a macro, a `set` block or a filter block collects counts as one value where it is printed.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    def visit_Output(self, node: nodes.Output) -> list[nodes.Node]:
        return [self._marked(child, node.lineno) for child in node.nodes]

    def _marked(self, child: nodes.Expr, line: int) -> nodes.Node:
        """What prints an expression between two tokens. The role of a history's message, `{{item.role}}`, has none."""
        if isinstance(child, nodes.TemplateData):
            return nodes.Output([child], lineno=line)
        between = nodes.Output([self._mark(), child, self._mark()], lineno=line)
        if not _is_role(child):
            return between
        roles = nodes.Tuple([nodes.Const(role) for role in HISTORY_ROLES], "load")
        is_known = nodes.Compare(child, [nodes.Operand("in", roles)])
        return nodes.If(is_known, [nodes.Output([child], lineno=line)], [], [between], lineno=line)

    def visit_FilterBlock(self, node: nodes.Node) -> list[nodes.Node]:
        return [nodes.Output([self._mark()]), node, nodes.Output([self._mark()])]

    visit_CallBlock = visit_FilterBlock

    def visit_Macro(self, node: nodes.Node) -> nodes.Node:
        return node

    visit_AssignBlock = visit_Macro

    def _mark(self) -> nodes.TemplateData:
        return nodes.TemplateData(self._token)


def _is_role(printed: nodes.Expr) -> bool:
    """Whether it is `NAME.role` or `NAME["role"]`: what the template's author writes to say whose message follows."""
    match printed:
        case nodes.Getattr(node=nodes.Name(), attr="role"):
            return True
        case nodes.Getitem(node=nodes.Name(), arg=nodes.Const(value="role")):
            return True
    return False


class _NamesIn(meta.TrackingCodeGenerator):
    """Finds names without evaluating an expression: what a constant one makes can be of any size."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.optimizer = None


def _require_small(source: str) -> None:
    if len(source) > MAX_SOURCE:
        raise RenderError(f"Template too large: {len(source):,} characters. Expected {MAX_SOURCE:,} at most")
    if (tags := source.count("{{") + source.count("{%")) > MAX_TAGS:
        raise RenderError(f"Template too large: {tags:,} times `{{{{` or `{{%`. Expected {MAX_TAGS:,} at most")


def _environment(token: str) -> Sandbox:
    @pass_context  # so that no constant is evaluated before it is printed
    def finalize(context: Context, value: Any) -> str:
        text = portable_text(value)
        return environment.printed(text.replace(token, "") if token else text)

    environment = Sandbox(keep_trailing_newline=True, undefined=ChainableUndefined, finalize=finalize)
    environment.filters["default"] = environment.filters["d"] = _default
    return environment


def _default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    """The `default` filter of the portable subset: null counts as undefined."""
    missing = value is None or isinstance(value, Undefined) or (boolean and not value)
    return default_value if missing else value


def _syntax_error(error: SyntaxError | TemplateSyntaxError) -> RenderError:
    if isinstance(error, TemplateSyntaxError):
        return RenderError(f"Template syntax error: {error.message} (line {error.lineno})", line=error.lineno)
    return RenderError(f"Template syntax error: {error.msg}")
