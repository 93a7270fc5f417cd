"""Renders Jinja2 templates: in a sandbox, with portable printing, keeping the template's own text
apart (§5).
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from jinja2 import ChainableUndefined, Environment, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.defaults import DEFAULT_NAMESPACE
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, markup_join
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from ..errors import RenderError
from ..json_types import JsonView

MAX_STEPS = 1_000_000
"""The most loop iterations and calls in one rendering."""
MAX_CHARACTERS = 16 * 2**20
"""The most characters that one rendering prints, and that each text it creates may have."""
MAX_BITS = 100_000
"""The most bits of an integer that an expression creates."""
MAX_NUMBER = 10_000
"""The largest argument of a function that creates text of that size, such as `center`."""

_WIDE = re.compile(
    r"%(?:\([^)]*+\))?+[-#0 +]*+(?:\d{5,}|\*|\d*+\.(?:\d{5,}|\*))"  # %99999d, %*d, %.99999f
    r"|\{[^{}:]*+:(?:[^{}]*?\d{5,}|[^{}]*+\{)"  # {:99999}, {:{width}}
)
"""A width or a precision in a format that is large, or may be."""
_SIZED_FILTERS = ("batch", "center", "indent", "round", "slice", "tojson", "wordwrap")


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one rendering, which counts its work. Raises RenderError for too much of
    it.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(optimized=False, **options)
        self._steps = self._printed = 0
        for name in _SIZED_FILTERS:
            self.filters[name] = _with_small_numbers(self.filters[name])
        for name in ("replace", "join", "format"):
            self.filters[name] = _guard(self.filters[name], name)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Raise at once: a chainable undefined would print as nothing."""
        raise SecurityError(
            f"access to attribute {attribute!r} of a {type(obj).__name__} is unsafe"
        )

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Count every call of a template, including the one at each iteration of a loop."""
        self._count_steps(1)
        if getattr(obj, "__func__", None) is Sandbox.turn:
            return None
        bound = getattr(obj, "__wrapped__", obj)  # `str.format` comes wrapped
        text = getattr(bound, "__self__", None)
        if isinstance(text, str | bytes):
            name = getattr(bound, "__name__", "")
            _require_small_numbers(() if name.startswith("format") else (*args, *kwargs.values()))
            _require_small_result(name, text, args)
        elif getattr(obj, "__name__", "") == "generate_lorem_ipsum":
            _require_small_numbers((*args, *kwargs.values()), 1000)
        result = super().call(context, obj, *args, **kwargs)
        if isinstance(result, range):
            self._count_steps(len(result))
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator whose result can be far larger than its operands. Raises RenderError if
        it is.
        """
        if isinstance(left, int) and isinstance(right, int):
            bits = (
                left.bit_length() * abs(right)
                if operator == "**"
                else left.bit_length() + right.bit_length()
            )
            if bits > MAX_BITS:
                raise RenderError(
                    f"Template can't be rendered: `{operator}` makes a number of more than "
                    f"{MAX_BITS} bits"
                )
        elif operator == "%" and isinstance(left, str | bytes):
            _require_small_result("format", left, (right,))
        elif operator == "+":
            require_size(_length(left) + _length(right))
        elif operator == "*":
            require_size(_length(left) * right if isinstance(right, int) else 0)
            require_size(_length(right) * left if isinstance(left, int) else 0)
        return super().call_binop(context, operator, left, right)

    def turn(self) -> None:
        """Called at each iteration of a loop; `call` counts it."""

    def concatenation(self, *values: Any) -> str:
        """Return the result of `~`."""
        require_size(sum(map(_length, values)))
        return markup_join(values)

    def printed(self, text: str) -> str:
        """Count a text that is printed, and return it."""
        self._printed += len(text)
        require_size(self._printed)
        return text

    def _count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise RenderError(
                f"Template can't be rendered: more than {MAX_STEPS:,} iterations of its loops and "
                "calls. Make it do less"
            )


class Counting(NodeTransformer):
    """Makes the `Sandbox` count the template's loops, and its `~`."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        turn = nodes.Call(
            nodes.EnvironmentAttribute("turn"), [], [], None, None, lineno=node.lineno
        )
        node.body.insert(0, nodes.ExprStmt(turn, lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        function = nodes.EnvironmentAttribute("concatenation")
        return nodes.Call(function, node.nodes, [], None, None, lineno=node.lineno)


def require_size(characters: int) -> None:
    """Raise RenderError for a text that is too long."""
    if characters > MAX_CHARACTERS:
        raise RenderError(
            f"Template can't be rendered: it makes a text of more than {MAX_CHARACTERS:,} "
            "characters. Make it shorter"
        )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _with_small_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def small(*args: Any, **kwargs: Any) -> Any:
        _require_small_numbers((*args[1:], *kwargs.values()))
        return function(*args, **kwargs)

    return small


def _guard(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        given = args if name == "format" else args[1:]  # the others get the context first
        if given and name == "join":
            separator = kwargs.get("d", given[1] if len(given) > 1 else "")
            require_size(_length(given[0]) * _length(separator))
        elif given:
            _require_small_result(name, given[0], (*given[1:], *kwargs.values()))
        return function(*args, **kwargs)

    return guarded


def _require_small_numbers(values: tuple[Any, ...], most: int = MAX_NUMBER) -> None:
    for value in values:
        if isinstance(value, int) and abs(value) > most:
            raise RenderError(
                f"Template can't be rendered: {value:.3g} is too large here. Expected {most:,} at "
                "most"
            )


def _require_small_result(name: str, text: Any, given: tuple[Any, ...]) -> None:
    if name in ("format", "format_map") and isinstance(text, str | bytes):
        written = text if isinstance(text, str) else text.decode("latin-1")
        if _WIDE.search(written):
            raise RenderError(
                "Template can't be rendered: a width in a format. Expected one of four digits at "
                "most"
            )
    elif name == "replace" and len(given) > 1:
        is_everywhere = _length(given[0]) == 0
        require_size(
            (_length(text) + 1) * _length(given[1])
            if is_everywhere
            else _replaced_length(text, given)
        )
    elif name == "join" and given:
        require_size(_length(text) * _length(given[0]))


def _replaced_length(text: Any, given: tuple[Any, ...]) -> int:
    try:
        return _length(text) + int(text.count(given[0])) * _length(given[1])
    except (AttributeError, TypeError):
        return 0


MAX_SOURCE = 2**20
"""The most characters of a template."""
MAX_TAGS = 20_000
"""The most `{{` and `{%` of a template: each costs time when it is parsed and rendered."""
HISTORY_ROLES = ("user", "assistant")
"""Roles that a value may have in a template's `{{item.role}}:`; instructions are the template's own
(§6.3)."""
_GLOBALS = frozenset(DEFAULT_NAMESPACE)


def render_jinja(source: str, inputs: JsonView) -> tuple[list[str], list[str]]:
    """Return the rendering in pieces: the template's own literals, and the values between them.

    A value is the output of one expression, even an empty one, so there is one more literal than
    there are values. Raises RenderError, for a syntax error with its line.
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
    except Exception as error:  # a template's expression may raise any exception
        raise RenderError(f"Template can't be rendered: {type(error).__name__}: {error}") from error
    pieces = rendered.split(token)
    return pieces[0::2], pieces[1::2]


def parse_jinja(source: str, environment: Sandbox | None = None) -> nodes.Template:
    """Template's syntax tree. Raises RenderError, with the line, for a syntax error, and for a huge
    template.
    """
    _require_small(source)
    try:
        return (environment or _environment("")).parse(source)
    except TemplateSyntaxError as error:
        raise _syntax_error(error) from None
    except RecursionError:
        raise RenderError("Template syntax error: nested too deeply") from None


def used_variables(tree: nodes.Template) -> dict[str, int]:
    """Return the template's names that are inputs, each with the line of its first use.

    Raises RenderError, with the line, if the template uses a filter or a test that does not exist.
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
    """Value in the form that every Prompty runtime prints: null as "", True as "true", 1.0 as "1",
    maps and lists as JSON.
    """
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
    """Puts a token before and after everything that the template prints, except its own literal
    text.

    The output of a macro, a `set` block or a filter block counts as one value where it is printed.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    def visit_Output(self, node: nodes.Output) -> list[nodes.Node]:
        return [self._mark_expression(child, node.lineno) for child in node.nodes]

    def _mark_expression(self, child: nodes.Expr, line: int) -> nodes.Node:
        """Return the nodes that print an expression between two tokens. The role of a history's
        message, `{{item.role}}`, gets none.
        """
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
    """Return whether it is `NAME.role` or `NAME["role"]`, the author's notation for the role of the
    message that follows.
    """
    match printed:
        case nodes.Getattr(node=nodes.Name(), attr="role"):
            return True
        case nodes.Getitem(node=nodes.Name(), arg=nodes.Const(value="role")):
            return True
    return False


class _NamesIn(meta.TrackingCodeGenerator):
    """Finds names without evaluating an expression: a constant one may create a value of any
    size.
    """

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.optimizer = None


def _require_small(source: str) -> None:
    if len(source) > MAX_SOURCE:
        raise RenderError(
            f"Template too large: {len(source):,} characters. Expected {MAX_SOURCE:,} at most"
        )
    if (tags := source.count("{{") + source.count("{%")) > MAX_TAGS:
        raise RenderError(
            f"Template too large: {tags:,} times `{{{{` or `{{%`. Expected {MAX_TAGS:,} at most"
        )


def _environment(token: str) -> Sandbox:
    @pass_context  # keeps constants from being evaluated before they are printed
    def finalize(context: Context, value: Any) -> str:
        text = portable_text(value)
        return environment.printed(text.replace(token, "") if token else text)

    environment = Sandbox(
        keep_trailing_newline=True, undefined=ChainableUndefined, finalize=finalize
    )
    environment.filters["default"] = environment.filters["d"] = _default
    return environment


def _default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    """Return the `default` filter of the portable subset: null counts as undefined."""
    missing = value is None or isinstance(value, Undefined) or (boolean and not value)
    return default_value if missing else value


def _syntax_error(error: SyntaxError | TemplateSyntaxError) -> RenderError:
    if isinstance(error, TemplateSyntaxError):
        return RenderError(
            f"Template syntax error: {error.message} (line {error.lineno})", line=error.lineno
        )
    return RenderError(f"Template syntax error: {error.msg}")
