"""Where templates are rendered: without access to Python, and bounded in the work and the text that they make."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from jinja2 import Undefined, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, markup_join
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from ..errors import RenderError

MAX_STEPS = 1_000_000
"""Turns of loops, and calls, in one rendering."""
MAX_CHARACTERS = 16 * 2**20
"""In all that one rendering prints, and in each text that it makes."""
MAX_BITS = 100_000
"""Of a whole number that an expression makes."""
MAX_NUMBER = 10_000
"""Given to what makes text of that size, such as `center`."""

_WIDE = re.compile(
    r"%(?:\([^)]*+\))?+[-#0 +]*+(?:\d{5,}|\*|\d*+\.(?:\d{5,}|\*))"  # %99999d, %*d, %.99999f
    r"|\{[^{}:]*+:(?:[^{}]*?\d{5,}|[^{}]*+\{)"  # {:99999}, {:{width}}
)
"""A width or a precision in a format that is large, or can be."""
_SIZED_FILTERS = ("batch", "center", "indent", "round", "slice", "tojson", "wordwrap")


class Sandbox(ImmutableSandboxedEnvironment):
    """One rendering's environment: it counts the work. Raises RenderError where there is too much of it."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(optimized=False, **options)
        self._steps = self._printed = 0
        for name in _SIZED_FILTERS:
            self.filters[name] = _with_small_numbers(self.filters[name])
        for name in ("replace", "join", "format"):
            self.filters[name] = _guarded(self.filters[name], name)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse at once: a chainable undefined would print as nothing."""
        raise SecurityError(f"access to attribute {attribute!r} of a {type(obj).__name__} is unsafe")

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Every call that a template makes, the one at each turn of a loop included."""
        self._take(1)
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
            self._take(len(result))
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator whose result can be far larger than its operands. Raises RenderError for one that is."""
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * abs(right) if operator == "**" else left.bit_length() + right.bit_length()
            if bits > MAX_BITS:
                raise RenderError(
                    f"Template can't be rendered: `{operator}` makes a number of more than {MAX_BITS} bits"
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
        """Called at each turn of a loop; `call` counts it."""

    def concatenation(self, *values: Any) -> str:
        """What `~` makes."""
        require_size(sum(map(_length, values)))
        return markup_join(values)

    def printed(self, text: str) -> str:
        """The text, which is printed now."""
        self._printed += len(text)
        require_size(self._printed)
        return text

    def _take(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise RenderError(
                f"Template can't be rendered: more than {MAX_STEPS:,} turns of its loops and calls. Make it do less"
            )


class Counting(NodeTransformer):
    """Makes the template's loops, and its `~`, known to the `Sandbox`."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        turn = nodes.Call(nodes.EnvironmentAttribute("turn"), [], [], None, None, lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(turn, lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        function = nodes.EnvironmentAttribute("concatenation")
        return nodes.Call(function, node.nodes, [], None, None, lineno=node.lineno)


def require_size(characters: int) -> None:
    """Raises RenderError for a text that is too long."""
    if characters > MAX_CHARACTERS:
        raise RenderError(
            f"Template can't be rendered: it makes a text of more than {MAX_CHARACTERS:,} characters. Make it shorter"
        )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _with_small_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def small(*args: Any, **kwargs: Any) -> Any:
        _require_small_numbers((*args[1:], *kwargs.values()))
        return function(*args, **kwargs)

    return small


def _guarded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
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
            raise RenderError(f"Template can't be rendered: {value:.3g} is too large here. Expected {most:,} at most")


def _require_small_result(name: str, text: Any, given: tuple[Any, ...]) -> None:
    if name in ("format", "format_map") and isinstance(text, str | bytes):
        written = text if isinstance(text, str) else text.decode("latin-1")
        if _WIDE.search(written):
            raise RenderError("Template can't be rendered: a width in a format. Expected one of four digits at most")
    elif name == "replace" and len(given) > 1:
        require_size((_length(text) + 1) * _length(given[1]) if _length(given[0]) == 0 else _replaced(text, given))
    elif name == "join" and given:
        require_size(_length(text) * _length(given[0]))


def _replaced(text: Any, given: tuple[Any, ...]) -> int:
    try:
        return _length(text) + int(text.count(given[0])) * _length(given[1])
    except (AttributeError, TypeError):
        return 0
