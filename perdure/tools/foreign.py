"""Kinds `activity` and `workflow`: their declarations, their offers, and the passing of
arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ValidationError

from ..declared_tools import CustomTool, Node, Property, Tool
from ..json_types import JsonObject, JsonView
from ..options import MAX_SECONDS, MIN_SECONDS
from ..schema import object_schema
from ..tool_calls import ChildWorkflow, Execution, ForeignActivity
from .kind import Asking, KindCall, Offering, ToolKind, ToolOfferError
from .options import option_problems
from .signature import InvalidArguments
from .validation import find_problems, unknown_arguments, without_absent

DEFAULT_WAIT = 60.0
"""Seconds that a call waits for a worker of its queue."""
MAX_NAME_BYTES = 1000
"""Temporal's limit for the names of queues, types and workflows."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_PLACEHOLDER = re.compile(r"\{\{\s*([\w.-]*)\s*\}\}")


def seconds(value: Any) -> float:
    """Return a duration of the file: a number of seconds, or a text such as `30s`, `5m`, `1h30m`,
    `500ms`.

    Raises ValueError for anything else, and for less than a millisecond and more than ten years.
    """
    found: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    elif isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        found = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    if found is None or not MIN_SECONDS <= found <= MAX_SECONDS:
        text = (
            "expected a number of seconds or a text such as '30s', '5m', '1h30m', from 0.001 s to "
            "ten years"
        )
        raise ValueError(text)
    return found


def _name(value: str) -> str:
    if (
        not value.strip()
        or len(value.encode(errors="replace")) > MAX_NAME_BYTES
        or not value.isprintable()
    ):
        raise ValueError(f"expected a name, of at most {MAX_NAME_BYTES} bytes")
    if value.startswith("/_sys/"):
        raise ValueError(
            "expected a name that does not begin with '/_sys/', which Temporal keeps for itself"
        )
    return value


Duration = Annotated[float, BeforeValidator(seconds)]
Name = Annotated[str, AfterValidator(_name)]


class CallOptions(Node):
    """The common options of activities and workflows."""

    arguments: Literal["object", "positional"] = "object"
    """Form of the call's arguments: one JSON object, or positional in the order of `parameters`."""
    parameters: list[Property] = []
    """The tool's declared parameters, bound ones included. Not an option of the file."""
    hidden: list[str] = []
    """The names of bound parameters, which the model neither sees nor gives. Not an option of the
    file."""
    bound: JsonObject = {}
    """The values of bound parameters whose inputs the run has. Not an option of the file."""


class ActivityOptions(CallOptions):
    """The `options` of a tool of `kind: activity`."""

    activity: Name
    task_queue: Name
    schedule_to_start_timeout: Duration = DEFAULT_WAIT
    """Seconds that a call waits for a worker."""
    start_to_close_timeout: Duration | None = None
    """For one attempt."""
    heartbeat_timeout: Duration | None = None


class WorkflowOptions(CallOptions):
    """The `options` of a tool of `kind: workflow`."""

    workflow: Name
    task_queue: Name | None = None
    """None for the run's own queue."""
    id: Name | None = None
    """May contain `{{NAME}}` for arguments; None derives it from the run, the iteration and the
    call."""
    id_reuse_policy: Literal["allowDuplicate", "allowDuplicateFailedOnly", "rejectDuplicate"] = (
        "allowDuplicate"
    )
    execution_timeout: Duration | None = None

    def filled_id(self, arguments: JsonView) -> str | None:
        """Return the id with arguments filled in; None to derive it.

        Raises ValueError for an argument that is absent, or neither a text nor a number, and for an
        invalid id.
        """
        if self.id is None:
            return None
        return _name(_PLACEHOLDER.sub(lambda found: _id_part(found[1], arguments), self.id))


def placeholders(id: object) -> list[str]:
    """Return the names of the arguments in a workflow's id."""
    return _PLACEHOLDER.findall(id) if isinstance(id, str) else []


def _id_part(name: str, arguments: JsonView) -> str:
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(
            f"'{name}' must be a text or a whole number, because it is a part of the workflow's id"
        )
    return str(value)


NOT_IN_FILES = frozenset({"parameters", "hidden", "bound"})


class _ForeignKind(ToolKind):
    """Base of both kinds."""

    options_type: ClassVar[type[CallOptions]]
    example: ClassVar[str]

    def problems(self, tool: Tool) -> Sequence[str]:
        """Return the faults of the declaration, a sentence each."""
        return list(self._problems(tool))

    def _problems(self, tool: Tool) -> Iterator[str]:
        options = getattr(tool, "options", None)
        if not options:
            yield f"options is missing: expected {self.example}"
        else:
            for name in options.keys() & NOT_IN_FILES:
                yield f"options.{name} is unknown"
            yield from option_problems(self.options_type, options)
        yield from _parameter_problems(tool)
        if tool.perdure and tool.perdure.local:
            yield "perdure.local is true: expected false, because another worker executes the tool"

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """Return one function, with the tool's name.

        Raises ToolOfferError for options that the environment makes invalid, and for a required
        parameter bound to an input that the run does not have.
        """
        assert isinstance(tool, CustomTool)
        parameters = tool.parameters or []
        given = {
            **(tool.options or {}),
            "parameters": parameters,
            "hidden": list(tool.bindings or {}),
            "bound": _bound_values(tool, parameters, asking),
        }
        try:
            options = self.options_type.model_validate(given)
        except ValidationError as error:
            found = option_problems(self.options_type, tool.options or {})
            raise ToolOfferError("; ".join(found) or str(error)) from error
        return [
            Offering(
                name=tool.name,
                description=tool.description,
                parameters=object_schema(parameters),
                timeout=getattr(options, "start_to_close_timeout", None),
                idempotent=False,
                execution=self.execution(options),
            )
        ]

    async def execute(self, call: KindCall) -> Any:
        """Raises RuntimeError: called only without Temporal, such as in `InProcessRun`."""
        raise RuntimeError(
            f"kind {call.tool.kind} needs a Temporal server; to test without one, give a function "
            f"{call.name!r}"
        )

    def execution(self, options: Any) -> Execution:
        """Return how the workflow executes a call."""
        raise NotImplementedError


class ActivityKind(_ForeignKind):
    """`kind: activity`: a call is an activity, by its type and task queue."""

    options_type = ActivityOptions
    example = "{activity: TYPE, taskQueue: QUEUE}"

    def execution(self, options: ActivityOptions) -> ForeignActivity:
        """Return the activity."""
        return ForeignActivity(
            activity=options.activity, task_queue=options.task_queue, options=_fields(options)
        )


class WorkflowKind(_ForeignKind):
    """`kind: workflow`: a call is a child workflow, by its type and task queue."""

    options_type = WorkflowOptions
    example = "{workflow: TYPE, taskQueue: QUEUE}"

    def _problems(self, tool: Tool) -> Iterator[str]:
        yield from super()._problems(tool)
        names = [prop.name for prop in getattr(tool, "parameters", None) or []]
        options = getattr(tool, "options", None) or {}
        for name in placeholders(options.get("id")):
            if name not in names:
                yield (
                    f"options.id has {{{{{name}}}}}: expected one of the parameters ("
                    f"{', '.join(names) or 'none'})"
                )

    def execution(self, options: WorkflowOptions) -> ChildWorkflow:
        """Return the child workflow."""
        return ChildWorkflow(
            workflow=options.workflow, task_queue=options.task_queue, options=_fields(options)
        )


def _bound_values(tool: Tool, parameters: Sequence[Property], asking: Asking) -> JsonObject:
    """Return the values of the bound parameters."""
    bindings = tool.bindings or {}
    for prop in parameters:
        binding = bindings.get(prop.name)
        if (
            binding
            and binding.input not in asking.inputs
            and prop.required
            and prop.default is None
        ):
            text = (
                f"its parameter {prop.name!r} is bound to the input {binding.input!r}, which the "
                "run does not have"
            )
            raise ToolOfferError(text)
    return {
        name: asking.inputs[binding.input]
        for name, binding in bindings.items()
        if binding.input in asking.inputs
    }


def _fields(options: CallOptions) -> JsonObject:
    return options.model_dump(mode="json", by_alias=True, exclude_none=True)


def _parameter_problems(tool: Tool) -> Iterator[str]:
    parameters = getattr(tool, "parameters", None)
    if parameters is None:
        yield (
            "parameters is missing: expected a list, because this kind has no other source of "
            "parameters; [] for none"
        )
        return
    names = [prop.name for prop in parameters]
    if "" in names:
        yield "parameters has one without a name: expected {name: …, kind: …}"
    yield from (
        f"parameters has {name!r} twice" for name in dict.fromkeys(names) if names.count(name) > 1
    )
    yield from (
        f"bindings has {name!r}, which is not among the parameters ({', '.join(names) or 'none'})"
        for name in tool.bindings or {}
        if name not in names
    )
    try:
        object_schema(parameters)
    except ValueError as error:
        yield str(error)


def complete_arguments(options: CallOptions, given: JsonView) -> JsonObject:
    """Return the model's arguments, checked, with bound parameters, and defaults for missing ones.

    Raises InvalidArguments.
    """
    visible = [prop for prop in options.parameters if prop.name not in options.hidden]
    written = without_absent(
        visible, {name: value for name, value in given.items() if name not in options.hidden}
    )
    known = [prop.name for prop in visible]
    if problems := [*unknown_arguments(written, known), *find_problems(visible, written)]:
        raise InvalidArguments(problems)
    defaults = {prop.name: prop.default for prop in options.parameters if prop.default is not None}
    return {**defaults, **written, **options.bound}


def sent_arguments(options: CallOptions, arguments: JsonView) -> list[Any]:
    """Return the arguments for the activity or workflow; none for a tool without parameters.

    In positional form, absent ones in the middle are null, and those at the end are left out.
    """
    if not options.parameters:
        return []
    if options.arguments == "object":
        return [dict(arguments)]
    values = [arguments.get(prop.name) for prop in options.parameters]
    given = [prop.name in arguments for prop in options.parameters]
    while given and not given[-1]:
        values.pop()
        given.pop()
    return values
