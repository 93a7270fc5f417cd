"""The user's callbacks on this worker: guardrails and compactors, by name (§13.3, §13.4)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

from ..agent import Agent
from ..errors import ConfigurationError
from ..guardrails import GuardrailPoint, GuardrailResult, Guardrails
from ..messages import Message
from ..options import RunOptions

Compactor = Callable[[list[Message]], str | Awaitable[str]] | Agent | str | PathLike[str]
"""A function that summarises messages, or a `.prompty` agent whose input `conversation` is their text."""

HookKind = Literal["plain", "async"]
POINTS: tuple[GuardrailPoint, ...] = ("input", "output", "tool")


class Hooks:
    """What was registered on the worker; names come from `RunOptions`."""

    def __init__(self, guardrails: Mapping[str, Guardrails], compactors: Mapping[str, Compactor]) -> None:
        self._guardrails = guardrails
        self._compactors = compactors

    def kinds(self, options: RunOptions) -> dict[str, HookKind]:
        """The hooks that a run with these options has. Raises `ConfigurationError` for a name that is unknown."""
        kinds: dict[str, HookKind] = {}
        if options.guardrails is not None:
            guardrails = _named("guardrails", options.guardrails, self._guardrails)
            for point in POINTS:
                callback = getattr(guardrails, point)
                if callback is not None:
                    kinds[point] = "async" if inspect.iscoroutinefunction(_call(callback)) else "plain"
        if options.compactor is not None:
            _named("compactor", options.compactor, self._compactors)
            kinds["compactor"] = "async"
        return kinds

    def compactor(self, name: str) -> Compactor:
        return _named("compactor", name, self._compactors)

    async def judge(self, name: str, point: GuardrailPoint, *subject: Any) -> GuardrailResult:
        """The guardrail's verdict; one that fails denies, with its error as the reason."""
        callback = getattr(_named("guardrails", name, self._guardrails), point)
        try:
            verdict = callback(*subject)
            if inspect.isawaitable(verdict):
                verdict = await verdict
            return _verdict(verdict)
        except Exception as error:
            return GuardrailResult(
                allowed=False, reason=f"the {point} guardrail failed: {type(error).__name__}: {error}"
            )


def _verdict(value: Any) -> GuardrailResult:
    if isinstance(value, GuardrailResult):
        return value
    if isinstance(value, bool):
        return GuardrailResult(allowed=value)
    if isinstance(value, Mapping):
        return GuardrailResult.model_validate(value)
    raise TypeError(f"expected a GuardrailResult, got {value!r}")


def _call(callback: Any) -> Any:
    """The function that a callback runs: itself, or the `__call__` of an object."""
    return callback if inspect.isroutine(callback) else type(callback).__call__


def _named(what: str, name: str, registered: Mapping[str, Any]) -> Any:
    if name not in registered:
        known = ", ".join(sorted(registered)) or "none"
        raise ConfigurationError(
            f"no {what} named {name!r} on this worker (registered: {known}): "
            f"pass it to create_worker({'compactors' if what == 'compactor' else what}={{{name!r}: …}})"
        )
    return registered[name]


def conversation_text(messages: Sequence[Message]) -> str:
    """The messages as text, for a model that is to summarise them."""
    lines: list[str] = []
    for message in messages:
        if message.text:
            lines.append(f"{message.role}: {message.text}")
        lines += [f"assistant called {call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(lines)
