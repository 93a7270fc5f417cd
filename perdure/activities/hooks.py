"""The user's callbacks on this worker: guardrails and compactors, by name (§13.3, §13.4)."""

from __future__ import annotations

import asyncio
import json
from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal, get_args

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..agents import Agent
from ..arguments import json_value
from ..errors import ConfigurationError, LoadError
from ..guardrails import (
    UNSEEN,
    Compactor,
    GuardrailPoint,
    GuardrailResult,
    Guardrails,
    Instruct,
    JudgedOutput,
    PrepareTools,
    instruct_functions,
    prepare_functions,
)
from ..json_types import JsonView
from ..loop.verdicts import rewritten_text
from ..messages import Message
from ..options import RunOptions
from ..protocol.activities import JUDGE_SECONDS
from ..providers.base import FunctionDefinition, offered_functions
from ..providers.structured import MAX_FAULT_CHARS, StructuredResult, read_answer, without_nulls
from ..text import excerpt, one_line, valid_text
from ..tools.context import ToolContext
from ..tools.decorator import check_call
from ..tools.results import with_advice
from ..tools.signature import UnfitDepsError, is_async, signature_of
from ..tools.user_loop import ThisLoop, UserLoop

HookKind = Literal["plain", "async"]
"""A plain hook answers at once; an async hook may wait."""
POINTS: tuple[GuardrailPoint, ...] = get_args(GuardrailPoint)


MAX_INSTRUCTIONS_CHARS = 256 * 1024
MAX_CHOSEN = 10_000
"""So many values are read of what a function of `prepare_tools` returns: it may have no end."""


class Hooks:
    """The guardrails and compactors registered on the worker, by the names in `RunOptions`.

    With `in_threads`, plain functions run in their own threads. Async ones run on `loop`, by
    default on the caller's event loop. A worker sets both: a function that blocked the worker's
    event loop would stop the heartbeats of all its activities, and Temporal would start them again
    elsewhere.
    """

    def __init__(
        self,
        guardrails: Mapping[str, Guardrails],
        compactors: Mapping[str, Compactor],
        prepare_tools: Mapping[str, PrepareTools] | None = None,
        instructions: Mapping[str, Instruct] | None = None,
        *,
        in_threads: bool = False,
        loop: UserLoop | None = None,
    ) -> None:
        self._registered: dict[str, Mapping[str, Any]] = {
            "guardrails": guardrails,
            "compactor": compactors,
            "prepare_tools": ChainMap(dict(prepare_tools or {}), prepare_functions),
            "instructions": ChainMap(dict(instructions or {}), instruct_functions),
        }
        self._in_threads = in_threads
        self._loop = loop or ThisLoop()

    def kinds(self, options: RunOptions) -> dict[str, HookKind]:
        """Return the kinds of a run's hooks by point or `compactor`, a part of its inventory.

        Contains `UNSEEN` if a guardrail judges the model's output.

        Raises `ConfigurationError` for names that are not registered.
        """
        if missing := self.missing_names(options):
            raise ConfigurationError("; ".join(missing.values()))
        kinds: dict[str, HookKind] = {}
        if options.guardrails is not None:
            guardrails: Guardrails = self._named("guardrails", options.guardrails)
            for point in POINTS:
                if callbacks := guardrails.callbacks(point):
                    kinds[point] = "async" if any(map(is_async, callbacks)) else "plain"
            if guardrails.output is not None:
                kinds[UNSEEN] = "plain"
        if options.compactor is not None:
            kinds["compactor"] = "async"
        if options.prepare_tools is not None:
            prepare = self._named("prepare_tools", options.prepare_tools)
            kinds["tools"] = "async" if is_async(prepare) else "plain"
        return kinds

    def missing_names(self, options: RunOptions, only: str = "") -> dict[str, str]:
        """Return the unregistered names of the options, such as `guardrails 'strict'`, each with
        the remedy; with `only`, those of one kind of hook.
        """
        named = {
            "guardrails": options.guardrails,
            "compactor": options.compactor,
            "prepare_tools": options.prepare_tools,
            "instructions": options.instructions_by,
        }
        return {
            f"{what} {name!r}": self._not_registered(what, name)
            for what, name in named.items()
            if name is not None and only in ("", what) and name not in self._registered[what]
        }

    def judges(self, name: str, point: GuardrailPoint) -> bool:
        """Return whether the guardrails of that name judge there."""
        return bool(self._named("guardrails", name).callbacks(point))

    def _named(self, what: str, name: str) -> Any:
        if name not in self._registered[what]:
            raise ConfigurationError(self._not_registered(what, name))
        return self._registered[what][name]

    def _not_registered(self, what: str, name: str) -> str:
        known = ", ".join(sorted(self._registered[what])) or "none"
        text = f"no {what} named {name!r} on this worker (registered: {known}): "
        if what in ("prepare_tools", "instructions"):
            return (
                f"{text}put @perdure.{what} above the function in a module of --tools, or "
                f"create_worker({what}={{{name!r}: …}})"
            )
        argument = "compactors" if what == "compactor" else what
        return (
            f"{text}start it with perdure worker --{what} MODULE:{name}, or "
            f"create_worker({argument}={{{name!r}: …}})"
        )

    def misfits(self, options: RunOptions, deps: Any) -> list[str]:
        """Return the functions of the options that expect other deps than the run's, each with the
        reason.
        """
        known = self._registered
        guardrails = known["guardrails"].get(options.guardrails or "") or Guardrails()
        functions = {f"{point} guardrail": getattr(guardrails, point) for point in POINTS}
        functions |= {
            "output validator": guardrails.validator,
            "prepare_tools": known["prepare_tools"].get(options.prepare_tools or ""),
            "instructions": known["instructions"].get(options.instructions_by or ""),
        }
        found: list[str] = []
        for what, function in functions.items():
            try:
                if function is not None:
                    signature_of(function).deps.of_json(deps)
            except UnfitDepsError as error:
                found.append(f"{what}: {error}")
        return found

    def compactor(self, name: str) -> Compactor:
        """Return the compactor of that name. Raises `ConfigurationError` when none is
        registered.
        """
        compactor: Compactor = self._named("compactor", name)
        return compactor

    async def judge_output(
        self, name: str, agent: Agent, message: Message, context: ToolContext
    ) -> JudgedOutput:
        """Return the output guardrail's verdict, then the validator's verdict on the remaining
        answer.

        Raises like `judge`.
        """
        hooks: Guardrails = self._named("guardrails", name)
        verdict = GuardrailResult(allowed=True)
        if hooks.output is not None:
            verdict = await self.judge(name, "output", message, context=context)
        judged = judged_output(agent, message, verdict)
        if hooks.validator is None or not judged.allowed or message.tool_calls:
            return judged
        text = message.text if judged.rewrite is None else rewritten_text(judged.rewrite)
        value, faults = read_answer(text, agent.outputs) if agent.outputs else (text, [])
        if faults:
            return judged
        try:
            subject = _first_argument(hooks.validator, without_nulls(value, agent.outputs or []))
        except ValueError as error:
            return judged.model_copy(
                update={"faults": [excerpt(one_line(str(error)), MAX_FAULT_CHARS)]}
            )
        revised = await _in_time(
            "output validator", self._validate(hooks.validator, subject, context)
        )
        if not revised.allowed or isinstance(revised, JudgedOutput):
            return JudgedOutput(**dict(revised))
        if revised.rewrite in (None, to_jsonable_python(subject)):
            return judged
        rewrite = json.dumps(revised.rewrite) if agent.outputs else revised.rewrite
        return judged_output(agent, message, GuardrailResult(allowed=True, rewrite=rewrite))

    async def instruct(self, name: str, inputs: JsonView, context: ToolContext) -> str:
        """Return the instructions from the function of that name; "" for none.

        Raises `ConfigurationError` for an unregistered name, TypeError for a value that is not a
        text, ValueError for a text that is too long, and any error of the function.
        """
        function = self._named("instructions", name)
        given = [dict(inputs)] if signature_of(function).parameters else []
        title = f"instructions {name} of run {context.run_id}"
        text = await self.call(function, *given, title=title, context=context)
        if not isinstance(text, str):
            raise TypeError(f"the instructions {name!r} are {text!r:.80}: expected a text")
        if (size := len(text)) > MAX_INSTRUCTIONS_CHARS:
            raise ValueError(
                f"they have {size:,} characters, at most {MAX_INSTRUCTIONS_CHARS:,} are possible"
            )
        return valid_text(text)

    async def _validate(
        self, validator: Callable[..., Any], value: Any, context: ToolContext
    ) -> GuardrailResult:
        """Return the validator's value, or its ValueError as a fault. Raises its other errors."""
        try:
            title = f"output validator of run {context.run_id}"
            found = await self.call(
                validator, value, title=title, context=context, finish=_json_form
            )
            return GuardrailResult(allowed=True, rewrite=found)
        except UnfitDepsError:
            raise
        except ValueError as error:
            return JudgedOutput(allowed=True, faults=[excerpt(str(error), MAX_FAULT_CHARS)])

    async def judge(
        self, name: str, point: GuardrailPoint, *subject: Any, context: ToolContext | None = None
    ) -> GuardrailResult:
        """Return the guardrail's verdict on the subject; a guardrail that fails or takes longer
        than `JUDGE_SECONDS` denies.

        The guardrail gets the context if it has a parameter for it.

        Raises `ConfigurationError` for a name that is not registered.
        """
        callback = getattr(self._named("guardrails", name), point)
        what, context = f"{point} guardrail", context or ToolContext()
        title = f"{what} of run {context.run_id}"
        verdict = self.call(callback, *subject, title=title, context=context, finish=_verdict)
        return await _in_time(what, verdict)

    async def prepare_tools(self, name: str, agent: Agent, context: ToolContext) -> GuardrailResult:
        """Return the functions of the agent that the model is offered now, as a `rewrite`: their
        descriptions, by name.

        A function that fails, takes longer than `JUDGE_SECONDS` or returns something else denies.
        Raises `ConfigurationError` for a name that is not registered.
        """
        callback, offered = self._named("prepare_tools", name), offered_functions(agent)
        what, finish = f"function {name!r}", partial(_step_of, offered)
        title = f"{what} of run {context.run_id}"
        step = self.call(callback, list(offered), title=title, context=context, finish=finish)
        return await _in_time(what, step, "answer")

    async def call(
        self,
        callback: Callable[..., Any],
        *arguments: Any,
        title: str = "hook",
        context: ToolContext | None = None,
        finish: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return the callback's value, plain or async, read by `finish` where the callback runs: it
        may be an iterator without an end. `title` names the call in thread lists and logs.

        Raises the callback's errors; those that are not an `Exception`, such as SystemExit or its
        own cancellation, as RuntimeError.
        """
        in_loop = is_async(callback) or not self._in_threads
        call = (
            check_call(callback, arguments, context) if context else partial(callback, *arguments)
        )
        ended = await self._loop.end_of(call, title, is_async=in_loop, finish=finish)
        return ended.result()


async def _in_time(
    what: str, verdict: Awaitable[GuardrailResult], word: str = "verdict"
) -> GuardrailResult:
    """Return the verdict. A failure, or more than `JUDGE_SECONDS`, becomes a denial with that as
    the reason.
    """
    deadline = asyncio.timeout(JUDGE_SECONDS)
    try:
        async with deadline:
            return await verdict
    except Exception as error:
        problem = with_advice(f"{type(error).__name__}: {error}")
        if deadline.expired():
            problem = f"no {word} within {JUDGE_SECONDS:g} s"
        return GuardrailResult(allowed=False, reason=f"the {what} failed: {problem}")


def _first_argument(function: Callable[..., Any], value: Any) -> Any:
    """Return the value as the type of the function's first parameter. Raises ValueError if it does
    not fit.
    """
    first = next(iter(signature_of(function).parameters.values()), None)
    return value if first is None else first.converted(value)


def summary_of(value: Any) -> str:
    """Return a compactor's summary. Raises TypeError for a value that is not a text with words
    (§13.3).
    """
    if isinstance(value, str) and any(map(str.isalnum, value)):
        return value
    raise TypeError(
        f"the compactor returned {value!r:.80}: expected a text that sums up the messages"
    )


def judged_output(agent: Agent, message: Message, verdict: GuardrailResult) -> JudgedOutput:
    """Return the verdict, and the faults of a rewritten answer against the agent's outputs. Never
    raises.
    """
    is_answer = verdict.allowed and verdict.rewrite is not None and not message.tool_calls
    if not (agent.outputs and is_answer):
        return JudgedOutput(**dict(verdict))
    value, faults = read_answer(rewritten_text(verdict.rewrite), agent.outputs)
    is_plain = faults or isinstance(value, StructuredResult)
    # The loop does not know outputs: it gets the bare value, as JSON.
    rewrite = verdict.rewrite if is_plain else json.dumps(value, ensure_ascii=False)
    return JudgedOutput(**{**dict(verdict), "rewrite": rewrite}, faults=faults)


def _verdict(value: Any) -> GuardrailResult:
    _json_form(value.rewrite if isinstance(value, GuardrailResult) else value)
    if isinstance(value, GuardrailResult):
        return value
    if isinstance(value, bool):
        return GuardrailResult(allowed=value)
    if isinstance(value, Mapping):
        return GuardrailResult.model_validate(value)
    raise TypeError(f"expected a GuardrailResult, got {value!r}")


def _step_of(offered: Sequence[FunctionDefinition], value: Any) -> GuardrailResult:
    """Return the tools that a function has chosen. Raises TypeError for a value that does not list
    some of them.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"expected some of the tools, or their names, got {value!r:.80}")
    known = {each.name: each.description for each in offered}
    chosen: dict[str, str | None] = {}
    for each in islice(value, MAX_CHOSEN):
        name = each.name if isinstance(each, FunctionDefinition) else each
        if name not in known:
            raise TypeError(f"{name!r:.80} is not one of the tools: {', '.join(known) or 'none'}")
        chosen[name] = each.description if isinstance(each, FunctionDefinition) else known[name]
    return GuardrailResult(allowed=True, rewrite=chosen)


def _json_form(rewrite: Any) -> Any:
    """Return the rewrite as JSON. Raises TypeError, with the reason, if it can't be recorded."""
    try:
        found = to_jsonable_python(rewrite)
        json_value(found)
        return found
    except (PydanticSerializationError, LoadError, ValueError, RecursionError) as error:
        raise TypeError(f"its rewrite has no JSON form: {one_line(str(error))}") from None


def conversation_text(messages: Sequence[Message]) -> str:
    """Return the messages as plain text for a summarising model."""
    lines: list[str] = []
    for message in messages:
        if message.text:
            lines.append(f"{message.role}: {message.text}")
        lines += [f"assistant called {call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(lines)
