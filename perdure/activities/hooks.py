"""The user's callbacks on this worker: guardrails and compactors, by name (§13.3, §13.4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..agents import Agent
from ..arguments import json_value
from ..errors import ConfigurationError, LoadError
from ..guardrails import Compactor, GuardrailPoint, GuardrailResult, Guardrails, JudgedOutput
from ..loop.verdicts import rewritten_text
from ..messages import Message
from ..options import RunOptions
from ..protocol.activities import JUDGE_SECONDS
from ..providers.structured import StructuredResult, read_answer
from ..text import one_line
from ..tools.context import ToolContext
from ..tools.decorator import check_call
from ..tools.results import with_advice
from ..tools.signature import is_async
from ..tools.user_loop import ThisLoop, UserLoop

HookKind = Literal["plain", "async"]
"""A plain hook answers at once, an async one may wait."""
POINTS: tuple[GuardrailPoint, ...] = get_args(GuardrailPoint)


class Hooks:
    """The guardrails and compactors that were registered on the worker, by the names that `RunOptions` asks for.

    With `in_threads`, plain functions run in threads of their own. Async ones run on `loop`, without one on the event
    loop of whoever asks. A worker gives both: what blocks its own event loop would keep every activity of the worker
    from its heartbeat, and so have all of them started again elsewhere.
    """

    def __init__(
        self,
        guardrails: Mapping[str, Guardrails],
        compactors: Mapping[str, Compactor],
        *,
        in_threads: bool = False,
        loop: UserLoop | None = None,
    ) -> None:
        self._guardrails = guardrails
        self._compactors = compactors
        self._in_threads = in_threads
        self._loop = loop or ThisLoop()

    def kinds(self, options: RunOptions) -> dict[str, HookKind]:
        """Return the hooks of a run with these options, by point or `compactor`: a part of its inventory.

        Raises `ConfigurationError` for names that are not registered.
        """
        if missing := self.missing_names(options):
            raise ConfigurationError("; ".join(missing.values()))
        kinds: dict[str, HookKind] = {}
        if options.guardrails is not None:
            for point in POINTS:
                callback = getattr(self._guardrails[options.guardrails], point)
                if callback is not None:
                    kinds[point] = "async" if is_async(callback) else "plain"
        if options.compactor is not None:
            kinds["compactor"] = "async"
        return kinds

    def missing_names(self, options: RunOptions) -> dict[str, str]:
        """Return what is not registered of what the options name, such as `guardrails 'strict'`, with what to type."""
        named = (
            ("guardrails", options.guardrails, self._guardrails),
            ("compactor", options.compactor, self._compactors),
        )
        return {
            f"{what} {name!r}": _not_registered(what, name, registered)
            for what, name, registered in named
            if name is not None and name not in registered
        }

    def compactor(self, name: str) -> Compactor:
        """Return the compactor of that name. Raises `ConfigurationError` when none is registered."""
        compactor: Compactor = _hook_named("compactor", name, self._compactors)
        return compactor

    async def judge(
        self, name: str, point: GuardrailPoint, *subject: Any, context: ToolContext | None = None
    ) -> GuardrailResult:
        """Guardrail's verdict; one that fails or takes longer than `JUDGE_SECONDS` denies, with that as the reason.

        It is given the context if it has a parameter for one.

        Raises `ConfigurationError` for a name that is not registered.
        """
        callback, context = getattr(_hook_named("guardrails", name, self._guardrails), point), context or ToolContext()
        deadline = asyncio.timeout(JUDGE_SECONDS)
        try:
            async with deadline:
                title = f"{point} guardrail of run {context.run_id}"
                verdict = _verdict(await self.call(callback, *subject, title=title, context=context))
                _require_json(verdict.rewrite)
                return verdict
        except Exception as error:
            problem = with_advice(f"{type(error).__name__}: {error}")
            if deadline.expired():
                problem = f"no verdict within {JUDGE_SECONDS:g} s"
            return GuardrailResult(allowed=False, reason=f"the {point} guardrail failed: {problem}")

    async def call(
        self,
        callback: Callable[..., Any],
        *arguments: Any,
        title: str = "hook",
        context: ToolContext | None = None,
    ) -> Any:
        """Return what the callback returns, plain or async; `title` names it in a thread list and in the log.

        Raises what it raises; what is no `Exception`, such as SystemExit or its own cancellation, as a RuntimeError.
        """
        in_loop = is_async(callback) or not self._in_threads
        call = check_call(callback, arguments, context) if context else partial(callback, *arguments)
        ended = await self._loop.end_of(call, title, is_async=in_loop)
        return ended.result()


def summary_of(value: Any) -> str:
    """Return what a compactor has returned. Raises TypeError for anything but a text with words (§13.3)."""
    if isinstance(value, str) and any(map(str.isalnum, value)):
        return value
    raise TypeError(f"the compactor returned {value!r:.80}: expected a text that sums up the messages")


def judged_output(agent: Agent, message: Message, verdict: GuardrailResult) -> JudgedOutput:
    """Return the verdict, and why its rewrite of an answer does not fit the agent's outputs. Never raises."""
    is_answer = verdict.allowed and verdict.rewrite is not None and not message.tool_calls
    if not (agent.outputs and is_answer):
        return JudgedOutput(**dict(verdict))
    value, faults = read_answer(rewritten_text(verdict.rewrite), agent.outputs)
    is_plain = faults or isinstance(value, StructuredResult)
    # The loop knows no outputs: it is given the value out of its wrapper, as JSON.
    rewrite = verdict.rewrite if is_plain else json.dumps(value, ensure_ascii=False)
    return JudgedOutput(**{**dict(verdict), "rewrite": rewrite}, faults=faults)


def _verdict(value: Any) -> GuardrailResult:
    if isinstance(value, GuardrailResult):
        return value
    if isinstance(value, bool):
        return GuardrailResult(allowed=value)
    if isinstance(value, Mapping):
        return GuardrailResult.model_validate(value)
    raise TypeError(f"expected a GuardrailResult, got {value!r}")


def _require_json(rewrite: Any) -> None:
    """Raises TypeError, which says why, for a rewrite that can't be recorded."""
    try:
        json_value(to_jsonable_python(rewrite))
    except (PydanticSerializationError, LoadError, ValueError, RecursionError) as error:
        raise TypeError(f"its rewrite has no JSON form: {one_line(str(error))}") from None


def _hook_named(what: str, name: str, registered: Mapping[str, Any]) -> Any:
    if name not in registered:
        raise ConfigurationError(_not_registered(what, name, registered))
    return registered[name]


def _not_registered(what: str, name: str, registered: Mapping[str, Any]) -> str:
    known = ", ".join(sorted(registered)) or "none"
    argument = "compactors" if what == "compactor" else what
    return (
        f"no {what} named {name!r} on this worker (registered: {known}): "
        f"start it with perdure worker --{what} MODULE:{name}, or create_worker({argument}={{{name!r}: …}})"
    )


def conversation_text(messages: Sequence[Message]) -> str:
    """Return the messages as plain text, for a model that is to summarise them."""
    lines: list[str] = []
    for message in messages:
        if message.text:
            lines.append(f"{message.role}: {message.text}")
        lines += [f"assistant called {call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(lines)
