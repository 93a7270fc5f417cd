"""Uses a Python type as the form of a run's answer, for the request to the model and for the
caller's value.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
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
from ..tools.signature import pydantic_annotation

Schema = Mapping[str, Any]
T = TypeVar("T", default=Any)
OutputType = type[T] | UnionType | _SpecialForm
"""A type for answers: a class, such as a pydantic model or an enum, `list[Type]`, a union, a
`Literal`."""


def with_output_type(agent: Agent, output_type: Any) -> Agent:
    """Return the agent with `outputs` that fit every value of the type, within the agent's own
    `outputs`.

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
            "the type has "
            f"{_form_text(described)}, the agent has {_form_text(agent.outputs)}. Change one of "
            "them, or leave one out"
        )
    outputs = _merge(agent.outputs, described) if agent.outputs else described
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
    return TypeAdapter(pydantic_annotation(output_type)).validate_json(json.dumps(present))


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
        adapter = TypeAdapter(pydantic_annotation(output_type))
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        raise ConfigurationError(
            f"output_type={_name(output_type)} has no JSON form: {error}"
        ) from error
    if problem := _inexpressible(schema, schema.get("$defs", {}), "", frozenset()):
        raise ConfigurationError(
            f"output_type={_name(output_type)} can't be asked of a model: {problem}"
        )
    described = property_of("", output_type, adapter, has_values=True)
    if described.kind == "object" and described.values is None and not described.nullable:
        return described.properties or []
    return [described]


def _inexpressible(
    schema: Schema, definitions: Schema, at: str, seen: frozenset[str]
) -> str | None:
    """Return the part of the type that `outputs` can't express; None when they can express all of
    it.
    """
    place = at.removeprefix(".") or "the type"
    if reference := schema.get("$ref"):
        if reference in seen:
            return f"{place} contains itself"
        return _inexpressible(
            definitions[reference.rpartition("/")[2]], definitions, at, seen | {reference}
        )
    if keyword := next(
        (key for key in ("allOf", "prefixItems", "patternProperties") if key in schema), None
    ):
        return f"{place} needs the JSON Schema keyword {keyword}, which outputs do not have"
    if schema.get("type") == "object" and not schema.get("properties"):
        values = schema.get("additionalProperties")
        if not isinstance(values, Mapping):
            return (
                f"{place} is an object without declared fields, or a dict of anything: give its "
                "values a type"
            )
        return _inexpressible(values, definitions, f"{at}[key]", seen)
    if not {"type", "enum", "const", "anyOf", "oneOf"} & schema.keys():
        return f"{place} may be anything: give it a type"
    inner = [(f"{at}.{name}", member) for name, member in schema.get("properties", {}).items()]
    inner += [(f"{at}[]", schema["items"])] if "items" in schema else []
    inner += [(at, option) for keyword in ("anyOf", "oneOf") for option in schema.get(keyword, [])]
    problems = (_inexpressible(member, definitions, name, seen) for name, member in inner)
    return next((problem for problem in problems if problem), None)


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


def _merge(own: Sequence[Property], described: Sequence[Property]) -> list[Property]:
    """Return the agent's own properties, narrowed to values that the type accepts."""
    of_type = {each.name: each for each in described}
    return [_narrow(each, of_type[each.name]) for each in own]


def _narrow(own: Property, described: Property) -> Property:
    allows_null = own.nullable or not own.required
    narrowed: dict[str, Any] = {
        "required": own.required or described.required,
        "nullable": allows_null and described.nullable,
        "description": own.description or described.description,
    }
    if own.properties and described.properties:
        narrowed["properties"] = _merge(own.properties, described.properties)
    if own.items and described.items:
        narrowed["items"] = _narrow(own.items, described.items)
    return own.model_copy(update=narrowed)


def _form_text(properties: Sequence[Property]) -> str:
    return excerpt(json.dumps(answer_schema(properties), ensure_ascii=False), 2000)


def _name(output_type: Any) -> str:
    return (
        output_type.__name__
        if isinstance(output_type, type) and not get_args(output_type)
        else repr(output_type)
    )
