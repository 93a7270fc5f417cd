"""Uses a Python type as the form of a run's answer, for the request to the model and for the
caller's value.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from functools import partial
from types import UnionType
from typing import Any, _SpecialForm, cast, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import TypeVar

from ..agents import Agent
from ..declared_tools import Property
from ..errors import ConfigurationError, OutputError
from ..protocol.outcome import RunResult
from ..providers.structured import remember_check, without_nulls
from ..schema import ANSWER, answer_schema, is_bare
from ..text import excerpt, fault_text
from ..tools.declaration import property_of

T = TypeVar("T", default=Any)
OutputType = type[T] | UnionType | _SpecialForm
"""A type for answers: a class, such as a pydantic model or an enum, `list[Type]`, a union, a
`Literal`."""


def with_output_type(agent: Agent, output_type: Any) -> Agent:
    """Return the agent with `outputs`: its own, or those of the type.

    From then on, the workers of this process send violations of the type's own rules back to the
    model.

    Raises ConfigurationError when the agent declares other ones, and for a type that `outputs`
    can't describe.
    """
    if output_type is str and not agent.outputs:
        return agent
    described = outputs_of(output_type)
    if agent.outputs and _form(agent.outputs) != _form(described):
        raise ConfigurationError(
            f"output_type={_name(output_type)} and the outputs of the agent {agent.name!r} differ: "
            f"the type has {_form_text(described)}, the agent has {_form_text(agent.outputs)}. "
            "Change one of them, or leave one out"
        )
    outputs = agent.outputs or described
    remember_check(outputs, _key(output_type), partial(_faults, described, output_type))
    return agent.model_copy(update={"outputs": outputs})


def _key(output_type: Any) -> Hashable:
    try:
        hash(output_type)
    except TypeError:  # An `Annotated` with an unhashable argument.
        return repr(output_type)
    return cast("Hashable", output_type)


def _faults(described: Sequence[Property], output_type: Any, value: Any) -> list[str]:
    """Return the reasons why the answer is not a value of the type, for the model to read."""
    root = f"$.{ANSWER}" if is_bare(described) else "$"
    try:
        _read_as(without_nulls(value, described), output_type)
    except ValidationError as error:
        return [_fault(each, root) for each in error.errors(include_url=False, include_input=False)]
    except Exception as error:  # An error in a validator's own code, caused by the model's answer.
        return [f"$: {type(error).__name__}: {error}"]
    return []


def _read_as(present: Any, output_type: Any) -> Any:
    """Convert a JSON value to the type. Raises pydantic's ValidationError, and the errors of
    validators.
    """
    return TypeAdapter(output_type).validate_json(json.dumps(present))


def _fault(detail: Any, root: str) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"])
    return f"{root}{path}: {fault_text(detail)}"


def typed_output(result: RunResult[Any], output_type: Any) -> Any:
    """Return the result's output, converted to the type. Raises OutputError when it does not
    fit.
    """
    try:
        return _read_as(without_nulls(result.output, _outputs_or_none(output_type)), output_type)
    except (ValueError, TypeError, PydanticUserError) as error:
        problem = OutputError(
            f"The run's output is not a {_name(output_type)}: {excerpt(str(error), 2000)}",
            reason=excerpt(repr(result.output), 500),
            messages=result.messages,
            iterations=result.iterations,
        )
        said = [message.text for message in result.messages if message.role == "assistant"]
        problem.text = said[-1] if said else ""
        raise problem from error


def _outputs_or_none(output_type: Any) -> list[Property]:
    try:
        return outputs_of(output_type)
    except ConfigurationError:
        return []


def outputs_of(output_type: Any) -> list[Property]:
    """Return the members of the type, or one unnamed property for a type that is not an object with
    members.

    Raises ConfigurationError for a type that `outputs` can't express.
    """
    try:
        adapter = TypeAdapter(output_type)
        described = property_of("", output_type, adapter, has_values=True)
    except (PydanticUserError, TypeError, NameError) as error:
        raise ConfigurationError(
            f"output_type={_name(output_type)} has no JSON form: {error}"
        ) from error
    if (part := _loose_part(described)) is not None:
        raise ConfigurationError(
            f"output_type={_name(output_type)} can't be asked of a model: {part or 'the type'} has "
            "no fixed form, as Any, a tuple, a list or dict of anything, and a type that contains "
            "itself: give each part a type"
        )
    if described.kind == "object" and described.values is None and not described.nullable:
        return described.properties or []
    return [described]


def _loose_part(described: Property, at: str = "") -> str | None:
    """Return the name of a part that has no fixed form; None if there is none."""
    at = described.name or at
    if described.kind == "array":
        return _loose_part(described.items, at) if described.items else at
    if described.kind == "object" and not described.properties:
        return _loose_part(described.values, at) if described.values else at
    parts = described.properties or described.one_of or described.any_of or []
    found = (_loose_part(each, at) for each in parts)
    return next((name for name in found if name is not None), None)


def _form(properties: Sequence[Property]) -> dict[str, Any]:
    """Return the names and kinds, which must be the same in the type and in the file."""
    return {each.name: _form_of(each) for each in properties}


def _form_of(described: Property) -> Any:
    if described.enum_values:
        return sorted(map(repr, (value for value in described.enum_values if value is not None)))
    if described.kind == "union":
        return sorted(
            repr(_form_of(option)) for option in described.one_of or described.any_of or []
        )
    inner = [each and _form_of(each) for each in (described.items, described.values)]
    return described.kind, _form(described.properties or []), *inner


def _form_text(properties: Sequence[Property]) -> str:
    return excerpt(json.dumps(answer_schema(properties), ensure_ascii=False), 2000)


def _name(output_type: Any) -> str:
    return (
        output_type.__name__
        if isinstance(output_type, type) and not get_args(output_type)
        else repr(output_type)
    )
