"""User code that a run calls: guardrails allow, deny or rewrite (§13.4), compactors summarise
(§13.3), functions give instructions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, field_validator

from .agents import Agent, origins_of
from .messages import JsonObject, Message, unless_none
from .text import bounded_text, valid_json

GuardrailPoint = Literal["input", "output", "tool"]


class GuardrailResult(BaseModel):
    """A guardrail's verdict."""

    allowed: bool
    reason: str | None = None
    """The reason for a denial: part of the error, or, for a tool call, of the model's result."""
    rewrite: Any = None
    """Replaces the judged value: a list of messages (input), a text (output), arguments (tool).
    None keeps it."""
    ask: str | None = unless_none()
    """For a tool call that is allowed: why a person must approve it. "" for no reason, None if no
    approval is needed."""

    @field_validator("reason", "ask", mode="before")
    @classmethod
    def _bound_reason(cls, reason: Any) -> Any:
        return bounded_text(reason) if isinstance(reason, str) else reason

    @field_validator("rewrite", mode="before")
    @classmethod
    def _make_valid(cls, rewrite: Any) -> Any:
        return valid_json(rewrite)


class JudgedOutput(GuardrailResult):
    """An output guardrail's verdict, with perdure's check of its rewrite."""

    faults: list[str] = []
    """Why the rewrite does not fit the agent's `outputs`; [] if it does."""


Verdict = GuardrailResult | Awaitable[GuardrailResult]


@dataclass(frozen=True)
class Guardrails:
    """Callbacks, each plain, async or None. A plain one must take well under 100 ms; make slower
    ones async.

    A callback with an additional parameter annotated `ToolContext` receives that, with the run's
    deps.
    """

    input: Callable[[list[Message]], Verdict] | Callable[[list[Message], Any], Verdict] | None = (
        None
    )
    output: Callable[[Message], Verdict] | Callable[[Message, Any], Verdict] | None = None
    tool: (
        Callable[[str, JsonObject], Verdict] | Callable[[str, JsonObject, Any], Verdict] | None
    ) = None
    validator: Callable[..., Any] | None = None
    """Takes the value of the answer, after `output`, and returns it, changed or not. A ValueError
    goes to the model, which answers again, at most `output_retries` times."""

    def callbacks(self, point: GuardrailPoint) -> list[Callable[..., Any]]:
        """Return the functions that are called at that point."""
        found = [getattr(self, point), self.validator if point == "output" else None]
        return [each for each in found if each is not None]


UNSEEN = "unseen"
"""Among a run's hooks: an output guardrail judges each text of the model before readers see it."""


def with_validator(
    guardrails: Guardrails | None, validator: Callable[..., Any] | None
) -> Guardrails | None:
    """Return the guardrails, with the agent's own validator if they have none. Raises TypeError for
    anything but guardrails.
    """
    require_guardrails({} if guardrails is None else {"guardrails": guardrails})
    if validator is None or (guardrails and guardrails.validator):
        return guardrails
    return replace(guardrails or Guardrails(), validator=validator)


def require_guardrails(given: Mapping[str, Any]) -> None:
    """Raise TypeError for a value that is not a `Guardrails`, such as a function."""
    for name, value in given.items():
        if not isinstance(value, Guardrails):
            raise TypeError(
                f"{name}: expected Guardrails(input=…, output=…, tool=…), got {value!r:.80}"
            )


def validators_of(tools: Any) -> dict[str, Guardrails]:
    """Return the validators of the agents in a list, and of their handoffs, by the agents'
    names.
    """
    agents = (
        [each for each in tools if isinstance(each, Agent)]
        if isinstance(tools, list | tuple)
        else []
    )
    known = {name: origin for agent in agents for name, origin in origins_of(agent).items()}
    return {
        name: Guardrails(validator=each.output_validator)
        for name, each in known.items()
        if each.output_validator
    }


PrepareTools = Callable[..., Any]
"""A function, plain or async, that takes the tools of a run before each model call, as a list of
`perdure.FunctionDefinition`, and a `ToolContext` if it has a parameter of that type. It returns the
tools to offer to the model, or their names; a changed description (`tool._replace(description=…)`)
applies to this call."""
prepare_functions: dict[str, PrepareTools] = {}
"""The functions registered by `@prepare_tools` in this process, by name."""
F = TypeVar("F", bound=PrepareTools)


def prepare_tools(function: F) -> F:
    """Register a function that chooses the tools offered to the model in each step, under its name:
    a decorator.

    An agent refers to it: `metadata.perdure.prepareTools`, or `RunOptions.prepare_tools`. See
    `PrepareTools`.
    """
    prepare_functions[function.__name__] = function
    return function


Instruct = Callable[..., str | Awaitable[str]]
"""A function that returns instructions. It takes the run's inputs as a dict, and a `ToolContext`
with its deps, if it has parameters for them."""
instruct_functions: dict[str, Instruct] = {}
"""The functions registered by `@instructions` in this process, by name."""
G = TypeVar("G", bound=Instruct)


def instructions(function: G) -> G:
    """Register a function that returns an agent's instructions, under its name: a decorator.

    An agent refers to it: `metadata.perdure.instructionsBy`, or `RunOptions.instructions_by`. See
    `Instruct`.
    """
    instruct_functions[function.__name__] = function
    return function


Compactor = Callable[[list[Message]], str | Awaitable[str]] | Agent | str | PathLike[str]
"""A function that summarises messages, or a `.prompty` agent that takes their text as its input
`conversation`."""


BY_FUNCTION = "instructions_by"
"""The metadata key of instructions from a function: the function's name."""


def with_instructions_by(
    name: str, text: str, messages: Sequence[Message], *, replaced: bool
) -> list[Message]:
    """Return the instructions at the beginning of a run: the agent's own, and the text of the
    function of that name.

    Earlier texts of such functions are removed, and with `replaced`, so are the agent's own
    instructions. "" adds none.
    """
    own = [message for message in messages if not (replaced or BY_FUNCTION in message.metadata)]
    given = Message.system(text)
    given.metadata[BY_FUNCTION] = name
    return [*own, given] if text.strip() else own
