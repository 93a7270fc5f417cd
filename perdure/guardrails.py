"""User code that a run calls: guardrails allow, deny or rewrite (§13.4), compactors summarise (§13.3), functions give
instructions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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
    """Why it was denied: the reason of the error, or, for a tool call, what the model is told."""
    rewrite: Any = None
    """Replaces what was judged: a list of messages (input), a text (output), arguments (tool). None keeps it."""
    ask: str | None = unless_none()
    """For a tool call that is allowed: why a person must approve it. "" for no reason, None for nobody to be asked."""

    @field_validator("reason", "ask", mode="before")
    @classmethod
    def _bound_reason(cls, reason: Any) -> Any:
        return bounded_text(reason) if isinstance(reason, str) else reason

    @field_validator("rewrite", mode="before")
    @classmethod
    def _make_valid(cls, rewrite: Any) -> Any:
        return valid_json(rewrite)


class JudgedOutput(GuardrailResult):
    """An output guardrail's verdict, and what perdure finds out about its rewrite."""

    faults: list[str] = []
    """Why the rewrite does not fit the agent's `outputs`; [] when it does."""


Verdict = GuardrailResult | Awaitable[GuardrailResult]


@dataclass(frozen=True)
class Guardrails:
    """Callbacks, each plain, async or None. A plain one must take well under 100 ms; make slower ones async.

    One with a parameter more that is annotated with `ToolContext` is given that, with the run's deps.
    """

    input: Callable[[list[Message]], Verdict] | Callable[[list[Message], Any], Verdict] | None = None
    output: Callable[[Message], Verdict] | Callable[[Message, Any], Verdict] | None = None
    tool: Callable[[str, JsonObject], Verdict] | Callable[[str, JsonObject, Any], Verdict] | None = None
    validator: Callable[..., Any] | None = None
    """Is given the value of the answer, after `output`, and returns it, changed or not. A ValueError goes to the model,
    which answers again, at most `output_retries` times."""

    def callbacks(self, point: GuardrailPoint) -> list[Callable[..., Any]]:
        """Return the functions that are called at that point."""
        found = [getattr(self, point), self.validator if point == "output" else None]
        return [each for each in found if each is not None]


UNSEEN = "unseen"
"""Among a run's hooks: an output guardrail judges each text of the model before anybody sees it."""


def with_validator(guardrails: Guardrails | None, validator: Callable[..., Any] | None) -> Guardrails | None:
    """Return the guardrails, with the validator that was given with an agent where they have none."""
    if validator is None or (guardrails and guardrails.validator):
        return guardrails
    return replace(guardrails or Guardrails(), validator=validator)


def validators_of(tools: Any) -> dict[str, Guardrails]:
    """Return the validators that came with the agents in a list, and with their handoffs, by the agents' names."""
    agents = [each for each in tools if isinstance(each, Agent)] if isinstance(tools, list | tuple) else []
    known = {name: origin for agent in agents for name, origin in origins_of(agent).items()}
    return {name: Guardrails(validator=each.output_validator) for name, each in known.items() if each.output_validator}


PrepareTools = Callable[..., Any]
"""A function, plain or async, that is given the tools of a run before each model call, as a list of
`perdure.FunctionDefinition`, and a `ToolContext` if it has a parameter of that type. It returns those that
the model is offered, or their names; a description that it changes (`tool._replace(description=…)`) holds for this
call."""
prepare_functions: dict[str, PrepareTools] = {}
"""Those that `@prepare_tools` has registered in this process, by name."""
F = TypeVar("F", bound=PrepareTools)


def prepare_tools(function: F) -> F:
    """Register a function that decides which tools the model is offered in each step, under its name: a decorator.

    An agent names it: `metadata.perdure.prepareTools`, or `RunOptions.prepare_tools`. See `PrepareTools`.
    """
    prepare_functions[function.__name__] = function
    return function


Instruct = Callable[..., str | Awaitable[str]]
"""A function that gives instructions: of the run's inputs as a dict, and of a `ToolContext` with its deps, if it has
parameters for them."""
instruct_functions: dict[str, Instruct] = {}
"""Those that `@instructions` has registered in this process, by name."""
G = TypeVar("G", bound=Instruct)


def instructions(function: G) -> G:
    """Register a function that gives an agent's instructions, under its name: a decorator.

    An agent names it: `metadata.perdure.instructionsBy`, or `RunOptions.instructions_by`. See `Instruct`.
    """
    instruct_functions[function.__name__] = function
    return function


Compactor = Callable[[list[Message]], str | Awaitable[str]] | Agent | str | PathLike[str]
"""A function that summarises messages, or a `.prompty` agent that is given their text as its input `conversation`."""


BY_FUNCTION = "instructions_by"
"""In the metadata of instructions that a function has given: its name."""


def with_instructions_by(name: str, text: str, messages: Sequence[Message], *, replaced: bool) -> list[Message]:
    """Return the instructions that a run begins with: the agent's own, and the text of the function of that name.

    Earlier texts of such functions go, and with `replaced`, so do the agent's own instructions. "" is no text.
    """
    own = [message for message in messages if not (replaced or BY_FUNCTION in message.metadata)]
    given = Message.system(text)
    given.metadata[BY_FUNCTION] = name
    return [*own, given] if text.strip() else own
