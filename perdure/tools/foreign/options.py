"""What a file says of an activity or a workflow that somebody else's worker executes, and as a run records it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from ...agent import Node, Property
from ...options import MAX_SECONDS, MIN_SECONDS
from ...spelling import did_you_mean

DEFAULT_WAIT = 60.0
"""Seconds that a call waits for a worker of its queue."""
MAX_NAME_BYTES = 1000
"""Temporal's limit for the names of queues, types and workflows."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_PLACEHOLDER = re.compile(r"\{\{\s*([\w.-]*)\s*\}\}")


def seconds(value: Any) -> float:
    """A duration of the file: a number of seconds, or a text such as `30s`, `5m`, `1h30m`, `500ms`.

    Raises ValueError for anything else, and for less than a millisecond and more than ten years.
    """
    found: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    elif isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        found = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    if found is None or not MIN_SECONDS <= found <= MAX_SECONDS:
        text = "expected a number of seconds or a text such as '30s', '5m', '1h30m', from 0.001 s to ten years"
        raise ValueError(text)
    return found


def _name(value: str) -> str:
    if not value.strip() or len(value.encode(errors="replace")) > MAX_NAME_BYTES or not value.isprintable():
        raise ValueError(f"expected a name, of at most {MAX_NAME_BYTES} bytes")
    if value.startswith("/_sys/"):
        raise ValueError("expected a name that does not begin with '/_sys/', which Temporal keeps for itself")
    return value


Duration = Annotated[float, BeforeValidator(seconds)]
Name = Annotated[str, AfterValidator(_name)]


class RetryOptions(Node):
    """Temporal's retry policy, under the names that its SDKs have."""

    maximum_attempts: int | None = Field(default=None, ge=1, le=1000)
    initial_interval: Duration = 1.0
    backoff_coefficient: float = Field(default=2.0, ge=1, le=100)
    maximum_interval: Duration | None = None
    non_retryable_error_types: list[str] = []

    @model_validator(mode="after")
    def _check_intervals(self) -> RetryOptions:
        if self.maximum_interval is not None and self.maximum_interval < self.initial_interval:
            raise ValueError("expected a maximumInterval that is not shorter than initialInterval")
        return self


class CallOptions(Node):
    """What activities and workflows have in common."""

    arguments: Literal["object", "positional"] = "object"
    """How the call's arguments travel: as one JSON object, or one after the other in the order of `parameters`."""
    schedule_to_start_timeout: Duration = DEFAULT_WAIT
    """How long a call waits for a worker."""
    retry_policy: RetryOptions | None = None
    parameters: list[Property] = []
    """Those that the tool declares, bound ones included. Not an option of the file."""
    hidden: list[str] = []
    """The names of those that are bound, which the model neither sees nor gives. Not an option of the file."""
    bound: dict[str, Any] = {}
    """The values of those whose inputs the run has. Not an option of the file."""


class ActivityOptions(CallOptions):
    """The `options` of a tool of `kind: activity`."""

    activity: Name
    task_queue: Name
    start_to_close_timeout: Duration | None = None
    """For one attempt."""
    schedule_to_close_timeout: Duration | None = None
    """For all attempts together."""
    heartbeat_timeout: Duration | None = None


class WorkflowOptions(CallOptions):
    """The `options` of a tool of `kind: workflow`."""

    workflow: Name
    task_queue: Name | None = None
    """None for the queue of the run itself."""
    id: Name | None = None
    """May have `{{NAME}}` for arguments; None derives it from the run, the iteration and the call."""
    id_reuse_policy: Literal["allowDuplicate", "allowDuplicateFailedOnly", "rejectDuplicate"] = "allowDuplicate"
    parent_close_policy: Literal["requestCancel", "terminate", "abandon"] = "requestCancel"
    execution_timeout: Duration | None = None
    run_timeout: Duration | None = None
    task_timeout: Annotated[float, BeforeValidator(seconds), Field(le=120)] | None = None

    def filled_id(self, arguments: Mapping[str, Any]) -> str | None:
        """The id with arguments in their places; None when it is to be derived.

        Raises ValueError for an argument that is absent, or no text or number, and for an id that can't be one.
        """
        if self.id is None:
            return None
        return _name(_PLACEHOLDER.sub(lambda found: _id_part(found[1], arguments), self.id))


def placeholders(id: object) -> list[str]:
    """The names of the arguments that a workflow's id is made of."""
    return _PLACEHOLDER.findall(id) if isinstance(id, str) else []


def _id_part(name: str, arguments: Mapping[str, Any]) -> str:
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"'{name}' must be a text or a whole number, because it is a part of the workflow's id")
    return str(value)


NOT_IN_FILES = ("parameters", "hidden", "bound")


def option_problems(type_: type[CallOptions], options: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a file's options, a sentence each. Values that the environment will give are not looked at."""
    known = [key for key in type_.file_keys() if key not in NOT_IN_FILES]
    for key in options:
        if key not in known:
            yield f"options.{key} is no option of this kind{did_you_mean(key, known)}. Expected: {', '.join(known)}"
    retries = options.get("retryPolicy")
    if isinstance(retries, Mapping):
        known = RetryOptions.file_keys()
        for key in retries:
            if key not in known:
                text = f"options.retryPolicy.{key} is no option{did_you_mean(key, known)}"
                yield f"{text}. Expected: {', '.join(known)}"
    try:
        type_.model_validate({key: value for key, value in options.items() if key not in NOT_IN_FILES})
    except ValidationError as error:
        for problem in error.errors():
            if "${" not in repr(problem["input"]) or problem["type"] == "missing":
                yield _sentence(problem)


def _sentence(problem: Any) -> str:
    place = ".".join(["options", *map(str, problem["loc"])])
    if problem["type"] == "missing":
        return f"{place} is missing"
    text = problem["msg"].removeprefix("Value error, ")
    return f"{place} is {problem['input']!r:.100}: {text[:1].lower()}{text[1:]}"
