"""The two kinds: how a file declares them, and what the model is offered. The workflow executes their calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pydantic import ValidationError

from ...agent import CustomTool, Property, Tool
from ...schema import object_schema
from ...tool_calls import ChildWorkflow, Execution, ForeignActivity
from ..kind import Asking, KindCall, Offering, ToolKind, ToolOfferError
from .options import ActivityOptions, CallOptions, WorkflowOptions, option_problems, placeholders


class _ForeignKind(ToolKind):
    """Base of both."""

    options_type: ClassVar[type[CallOptions]]
    example: ClassVar[str]

    def problems(self, tool: Tool) -> Sequence[str]:
        """What is wrong with the declaration, a sentence each."""
        return list(self._problems(tool))

    def _problems(self, tool: Tool) -> Iterator[str]:
        options = getattr(tool, "options", None)
        if not options:
            yield f"options is missing: expected {self.example}"
        else:
            yield from option_problems(self.options_type, options)
        yield from _parameter_problems(tool)
        if tool.perdure and tool.perdure.local:
            yield "perdure.local is true: expected false, because another worker executes the tool"

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """One function, by the tool's name.

        Raises ToolOfferError for options that the environment has made wrong, and for a required parameter that is
        bound to an input which the run does not have.
        """
        assert isinstance(tool, CustomTool)
        parameters = tool.parameters or []
        given = {
            **(tool.options or {}),
            "parameters": parameters,
            "hidden": list(tool.bindings or {}),
            "bound": _bound(tool, parameters, asking),
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
        """Only where there is no Temporal, such as in `InProcessRun`. Raises RuntimeError."""
        raise RuntimeError(
            f"kind {call.tool.kind} needs a Temporal server; to test without one, give a function {call.name!r}"
        )

    def execution(self, options: Any) -> Execution:
        """How the workflow executes a call."""
        raise NotImplementedError


class ActivityKind(_ForeignKind):
    """`kind: activity`: a call is an activity, by its type and task queue."""

    options_type = ActivityOptions
    example = "{activity: TYPE, taskQueue: QUEUE}"

    def execution(self, options: ActivityOptions) -> ForeignActivity:
        """The activity."""
        return ForeignActivity(activity=options.activity, task_queue=options.task_queue, options=_recorded(options))


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
                yield f"options.id has {{{{{name}}}}}: expected one of the parameters ({', '.join(names) or 'none'})"

    def execution(self, options: WorkflowOptions) -> ChildWorkflow:
        """The child workflow."""
        return ChildWorkflow(workflow=options.workflow, task_queue=options.task_queue, options=_recorded(options))


def _bound(tool: Tool, parameters: Sequence[Property], asking: Asking) -> dict[str, Any]:
    """The values of the bound parameters."""
    bindings = tool.bindings or {}
    for prop in parameters:
        binding = bindings.get(prop.name)
        if binding and binding.input not in asking.inputs and prop.required and prop.default is None:
            text = f"its parameter {prop.name!r} is bound to the input {binding.input!r}, which the run does not have"
            raise ToolOfferError(text)
    return {name: asking.inputs[binding.input] for name, binding in bindings.items() if binding.input in asking.inputs}


def _recorded(options: CallOptions) -> dict[str, Any]:
    return options.model_dump(mode="json", by_alias=True, exclude_none=True)


def _parameter_problems(tool: Tool) -> Iterator[str]:
    parameters = getattr(tool, "parameters", None)
    if parameters is None:
        yield "parameters is missing: expected a list of them, since nobody else says what the model gives; [] for none"
        return
    names = [prop.name for prop in parameters]
    if "" in names:
        yield "parameters has one without a name: expected {name: …, kind: …}"
    yield from (f"parameters has {name!r} twice" for name in dict.fromkeys(names) if names.count(name) > 1)
    yield from (
        f"bindings has {name!r}, which is not among the parameters ({', '.join(names) or 'none'})"
        for name in tool.bindings or {}
        if name not in names
    )
    try:
        object_schema(parameters)
    except ValueError as error:
        yield str(error)
