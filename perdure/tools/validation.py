"""Checks arguments against a schema, with errors for a model; foreign schemas within a time
limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators
from referencing import Registry
from referencing.exceptions import Unresolvable

from ..declared_tools import OfferedFunction, Property, Tool
from ..json_types import JsonObject, JsonView
from ..schema import LENIENT, object_schema
from ..text import nearest, one_line, unknown_argument
from ..tool_calls import ToolSpec
from .kind import closed_schema, is_silent

MAX_STEPS = 50_000
"""Limit of evaluated keywords, about half a second on a worker. References can multiply
endlessly."""
_REFERENCE = 5
"""Number of steps that following a reference costs."""
_UNCHECKED = (
    "pattern",
    "patternProperties",
    "uniqueItems",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Keywords left to the schema's author: a foreign regular expression may take for ever, and so may
the others."""
_left: ContextVar[int] = ContextVar("steps of a stranger's schema")

Keyword = Callable[[Any, Any, Any, JsonView], Iterator[ValidationError] | None]


def strangers_errors(schema: JsonView, value: Any) -> list[ValidationError]:
    """Return the faults of a value by a foreign schema, whose references stay within it.

    Raises ValueError if the check would take too long, `Unresolvable` for a dangling reference, and
    other exceptions for an invalid JSON Schema.
    """
    _left.set(MAX_STEPS)
    return list(_Bounded(schema, registry=Registry()).iter_errors(value))


def _counter_of(check: Keyword, steps: int = 1) -> Keyword:
    def count_and_check(validator: Any, keyword: Any, instance: Any, schema: JsonView) -> Any:
        left = _left.get()
        if left <= 0:
            raise ValueError(f"the arguments can't be checked in {MAX_STEPS:,} steps")
        _left.set(left - steps)
        return check(validator, keyword, instance, schema)

    return count_and_check


def _accept_all(*_: Any) -> None:
    return None


def _additional(validator: Any, keyword: Any, instance: Any, schema: JsonView) -> Any:
    """Skip the check if the schema has `patternProperties`, whose patterns decide which properties
    are additional.
    """
    return (
        None
        if "patternProperties" in schema
        else _KNOWN["additionalProperties"](validator, keyword, instance, schema)
    )


_KNOWN: Mapping[str, Keyword] = Draft202012Validator.VALIDATORS
_Bounded: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        name: _counter_of(check, _REFERENCE if name in ("$ref", "$dynamicRef") else 1)
        for name, check in _KNOWN.items()
    }
    | dict.fromkeys(_UNCHECKED, _accept_all)
    | {"additionalProperties": _counter_of(_additional)},
)

MAX_PROBLEMS = 5
_DEFINITION = "#/$defs/"
_MAX_REFERENCES = 8
_SHOWN_CHARACTERS = 60
_SHOWN_RULE_CHARACTERS = 200
_SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "float": (float, int),
    "boolean": (bool,),
}


def find_problems(parameters: Sequence[Property], arguments: JsonView) -> list[str]:
    """Return the faults of `arguments`, a sentence for each field, five at most; [] without any."""
    if all(_is_plainly_right(prop, arguments) for prop in parameters):
        return []
    validator = Draft202012Validator(object_schema(parameters, LENIENT))
    return _texts(validator.iter_errors(dict(arguments)))


def edited_problems(schema: JsonView, arguments: JsonView) -> list[str]:
    """Return the faults of arguments edited by a person, by the schema that the model gets; []
    without any.

    An optional argument may be null, as strict schemas make models write (§7.1); an unknown one is
    a mistake. The schema may be foreign: see `schema_problems`.
    """
    return _problems(closed_schema(schema), _without_nulls(schema, arguments))


def unknown_arguments(given: Iterable[str], known: Collection[str]) -> list[str]:
    """Return a sentence for each unknown argument. Such a call is refused: sent without the
    argument, it could mean something else.

    For tools with known parameter names only; `schema_problems` reports the same for those with a
    schema.
    """
    return [unknown_argument(name, known) for name in given if name not in known][:MAX_PROBLEMS]


def call_problems(tool: Tool, spec: ToolSpec, arguments: JsonView) -> list[str]:
    """Return why a call with these arguments can't be executed, by the run's records; [] if they
    show no reason.

    The executing worker finds these problems too, and those that only its function knows.
    """
    hidden = tool.bindings or {}
    given = {name: value for name, value in arguments.items() if name not in hidden}
    if isinstance(tool, OfferedFunction):
        return schema_problems(tool.schema_, given)[1]
    if (declared := getattr(tool, "parameters", None)) is None:
        return []
    visible = [prop for prop in declared if prop.name not in hidden]
    given, taken = without_absent(visible, given), spec.signature
    if taken and taken.takes_anything:
        return find_problems(visible, given)
    names = taken.names if taken and taken.names else [prop.name for prop in visible]
    return [
        *unknown_arguments(given, [name for name in names if name not in hidden]),
        *find_problems(visible, given),
    ]


def schema_problems(schema: JsonView, arguments: JsonView) -> tuple[JsonObject, list[str]]:
    """Return the arguments as sent, and their faults by a foreign JSON Schema, [] without any.

    Leaves out nulls that mean "not given" if the schema does not accept them. References stay
    within the schema, and keywords that may take for ever, such as foreign patterns, are not
    checked: see `strangers_errors`. An argument that the schema excludes is a fault, and so is a
    misplaced one: see `_strays`.
    """
    given = dict(arguments)
    if problems := _problems(schema, given):
        given = _without_nulls(schema, arguments)
        problems = _problems(schema, given) if len(given) < len(arguments) else problems
    return given, problems or list(_strays(schema, given))[:MAX_PROBLEMS]


def _strays(schema: JsonView, given: JsonView) -> Iterator[str]:
    """Yield the arguments that a schema without a rule on further arguments would accept without
    effect.

    These are a missing declared argument that appears under a very similar name, and one inside
    another argument that does not declare it.
    """
    known = schema.get("properties") or {}
    missing = [name for name in known if name not in given]
    if missing and is_silent(schema):
        yield from (
            unknown_argument(name, missing)
            for name in given
            if name not in known and nearest(name, missing)
        )
    for name, value in given.items() if missing else ():
        if (
            isinstance(value, dict)
            and name in known
            and (declared := _names_in(known[name], schema))
        ):
            for key in value.keys() - declared & set(missing):
                yield f"'{_join(name, key)}' is not read there: give {key!r} next to {name!r}"


def _names_in(schema: Any, root: JsonView, depth: int = 0) -> set[str]:
    """Return the properties declared in an object's schema, with those of its references to the
    root.

    Empty if it declares none, and if it accepts others on purpose.
    """
    if (
        not isinstance(schema, Mapping)
        or depth > _MAX_REFERENCES
        or schema.get("additionalProperties")
    ):
        return set()
    parts = list(schema.get("allOf") or ())
    if str(schema.get("$ref")).startswith(_DEFINITION):
        parts.append((root.get("$defs") or {}).get(schema["$ref"].removeprefix(_DEFINITION)))
    return set(schema.get("properties") or ()).union(
        *(_names_in(part, root, depth + 1) for part in parts)
    )


def _without_nulls(schema: JsonView, arguments: JsonView) -> JsonObject:
    required = schema.get("required")
    kept = required if isinstance(required, list) else ()
    return {name: value for name, value in arguments.items() if value is not None or name in kept}


def _problems(schema: JsonView, arguments: JsonView) -> list[str]:
    try:
        return _texts(strangers_errors(schema, arguments))
    except Exception as error:  # A foreign schema can raise anything.
        why = (
            str(error)
            if isinstance(error, Unresolvable | ValueError)
            else f"{type(error).__name__}: {error}"
        )
        return [f"the tool's own schema can't be used: {one_line(why)}"]


def _texts(errors: Iterable[ValidationError]) -> list[str]:
    in_order = sorted(errors, key=lambda error: [str(step) for step in error.path])
    texts = dict.fromkeys(text for error in in_order for text in _explain(error))
    return list(texts)[:MAX_PROBLEMS]


def _is_plainly_right(prop: Property, arguments: JsonView) -> bool:
    """Return whether a parameter is obviously valid, as most are; otherwise the schema decides."""
    if prop.name not in arguments:
        return not prop.required
    return type(arguments[prop.name]) in _SCALARS.get(prop.kind, ()) and not prop.enum_values


def without_absent(parameters: Sequence[Property], arguments: JsonView) -> JsonObject:
    """Return the arguments without the nulls that mean "not given", which strict schemas make
    models write (§7.1).
    """
    if None not in arguments.values():
        return dict(arguments)
    optional = {prop.name for prop in parameters if not prop.required and not prop.nullable}
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in optional
    }


def _explain(error: ValidationError) -> Iterator[str]:
    place = _place(error.absolute_path)
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator == "required":
        for name in schema["required"]:
            if name not in instance:
                yield (
                    f"'{_join(place, name)}' is required ("
                    f"{_expectation(schema.get('properties', {}).get(name, {}))})"
                )
    elif error.validator == "enum":
        allowed = ", ".join(_shown_value(value) for value in schema["enum"] if value is not None)
        yield f"'{place}' must be one of {allowed}, got {_shown_value(instance)}"
    elif error.validator == "additionalProperties":
        yield from _unknown_in(schema, instance, place)
    elif error.validator not in ("type", "oneOf", "anyOf"):
        rule = _rule(error)
        yield f"'{place}': {rule}" if place else rule
    else:
        yield f"'{place}' must be {_expectation(schema)}, got {_shown_value(instance)}"


def _unknown_in(schema: JsonView, instance: JsonView, place: str) -> Iterator[str]:
    known: JsonView = schema.get("properties") or {}
    for name in [name for name in instance if name not in known][:MAX_PROBLEMS]:
        holder = next(
            (each for each, inner in known.items() if name in _names_in(inner, schema)), None
        )
        if holder is None:
            yield unknown_argument(name, known, place and f"{place}.")
        else:
            yield (
                f"unknown argument {_join(place, name)!r:.100}: it is a part of "
                f"{_join(place, holder)!r}"
            )


def _rule(error: ValidationError) -> str:
    if len(error.message) <= _SHOWN_RULE_CHARACTERS:
        return error.message
    return (
        f"{_shown_value(error.instance)} does not fit "
        f"{_shown_value({str(error.validator): error.validator_value})}"
    )


def _expectation(schema: JsonView | bool) -> str:
    if isinstance(schema, bool):
        return "any value"
    alternatives = schema.get("oneOf") or schema.get("anyOf")
    if alternatives:
        names = [_expectation(option) for option in alternatives if option != {"type": "null"}]
        return " or ".join(dict.fromkeys(names))
    kind = schema.get("type", "any value")
    return (
        next((name for name in kind if name != "null"), "null")
        if isinstance(kind, list)
        else str(kind)
    )


def _place(path: Any) -> str:
    place = ""
    for step in path:
        place = f"{place}[{step}]" if isinstance(step, int) else _join(place, step)
    return place


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _shown_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
