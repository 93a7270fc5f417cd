"""What a person is asked about a tool call: to approve it, or to answer a question of the model's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .excerpt import one_line
from .json_types import JsonObject
from .tool_calls import Approval

MAX_ANSWER_BYTES = 64 * 1024
"""Of the answer to a question; the model is told all of it."""
CHECK_FAILED = "the tool can't say whether it needs an approval: {}"
"""Why a person is asked where the tool's own function has failed."""
_DEFAULTS: JsonObject = {"choices": [], "allow_other": True}


class AskedQuestion(BaseModel):
    """A question, as the arguments of a call whose execution is a `Question`. Raises ValidationError for others."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(pattern=r"\S")
    choices: list[str] = []
    """The answers that are suggested; empty for none."""
    allow_other: bool = True
    """Whether another answer than the choices is accepted."""

    @field_validator("choices", "allow_other", mode="before")
    @classmethod
    def _absent(cls, value: Any, info: Any) -> Any:
        """Strict schemas make models write null for what they leave out."""
        return _DEFAULTS[info.field_name] if value is None else value

    def problem_with(self, answer: str) -> str | None:
        """Why the answer is not accepted, and what is expected; None if it is."""
        if not answer.strip():
            return "the answer is empty: expected a text"
        if (size := len(answer.encode(errors="replace"))) > MAX_ANSWER_BYTES:
            return f"the answer takes {size:,} bytes: at most {MAX_ANSWER_BYTES:,} are possible"
        if self.choices and not self.allow_other and answer not in self.choices:
            expected = ", ".join(repr(one_line(choice)) for choice in self.choices)
            return f"the answer {one_line(answer)!r} is not among the choices: expected one of {expected}"
        return None


def read_question(arguments: JsonObject) -> AskedQuestion | str:
    """The question that the model asks; a text if its arguments are none, which says why."""
    try:
        return AskedQuestion.model_validate(arguments)
    except ValidationError as error:
        return "; ".join(_problem(each) for each in error.errors(include_url=False, include_context=False))


def misfit(asked: AskedQuestion | None, decision: Approval) -> str | None:
    """Why a decision is none about what was asked, an approval or a question, with what is expected; None if it is."""
    if asked is None:
        return None if decision.answer is None else "it waits for an approval, not for an answer: approve or deny it"
    if decision.answer is not None:
        return asked.problem_with(decision.answer)
    return "it is a question: answer it, or deny it with a reason" if decision.approved else None


@dataclass(frozen=True)
class Asked:
    """What a person is told about a call, besides the call."""

    reason: str | None = None
    """Why somebody is asked, if the tool or a guardrail has said so."""
    seconds: float | None = None
    """How long a person has; None for ever."""
    deadline: float | None = None
    """When that time is over, in seconds since the epoch."""
    question: AskedQuestion | None = None
    """None for an approval."""

    def since(self, now: float) -> Self:
        """With the deadline of one that is asked now."""
        return self if self.seconds is None else replace(self, deadline=now + self.seconds)

    @property
    def expired(self) -> Approval:
        """The decision where nobody has decided in time."""
        done = "answered" if self.question else "decided"
        return Approval(approved=False, reason=f"nobody has {done} within {self.seconds:g} s (approvalTimeout)")


def _problem(detail: Any) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"])[1:]
    match detail["type"]:
        case "missing":
            return f"'{place}' is required"
        case "extra_forbidden":
            return f"'{place}' is not a parameter ({', '.join(AskedQuestion.model_fields)})"
        case "string_pattern_mismatch":
            return f"'{place}' is empty: expected a text"
    return f"'{place}': {detail['msg'][0].lower()}{detail['msg'][1:]}"
