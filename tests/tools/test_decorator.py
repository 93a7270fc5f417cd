"""`@tool`: a FunctionTool from a signature (§11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from perdure.declared_tools import FunctionTool, Property
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.schema import object_schema
from perdure.tools import ToolContext, clear_tools, get_tool, tool


class Place(BaseModel):
    city: str
    zip: Annotated[str | None, Field(description="Postal code")] = None


@dataclass
class Span:
    start: int
    end: int = 10


class Options(TypedDict, total=False):
    limit: int


class Unit(Enum):
    C = "celsius"
    F = "fahrenheit"


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


@pytest.fixture(autouse=True)
def _forget_tools() -> Iterator[None]:
    yield
    clear_tools()


def schema_of(function: Any) -> JsonObject:
    return object_schema(function.__tool__.parameters)


def test_simple_types_and_required() -> None:
    @tool
    def everything(a: str, b: int, c: float, d: bool, e: list, f: dict, g: str = "x") -> str:  # type: ignore[type-arg]
        """Does everything.

        At length.
        """
        return g

    declared = everything.__tool__  # type: ignore[attr-defined]
    assert isinstance(declared, FunctionTool)
    assert (declared.name, declared.description) == ("everything", "Does everything.")
    assert [(p.name, p.kind, p.required) for p in declared.parameters or []] == [
        ("a", "string", True),
        ("b", "integer", True),
        ("c", "float", True),
        ("d", "boolean", True),
        ("e", "array", True),
        ("f", "object", True),
        ("g", "string", False),
    ]
    assert (declared.parameters or [])[-1].default == "x"


def test_the_function_stays_what_it_was_and_is_registered() -> None:
    @tool(name="add_up")
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
    assert add.__name__ == "add"
    assert get_tool("add_up") is add


def test_options_are_kept_beside_the_declaration() -> None:
    @tool(
        description="Pays.", timeout=5, idempotent=False, parallel_safe=False, needs_approval=True
    )
    def pay() -> None:
        """Ignored."""

    spec = pay.__tool_spec__  # type: ignore[attr-defined]
    assert (spec.name, spec.timeout, spec.idempotent, spec.parallel_safe, spec.needs_approval) == (
        "pay",
        5,
        False,
        False,
        True,
    )
    assert pay.__tool__.description == "Pays."  # type: ignore[attr-defined]


def test_async_functions_are_tools_too() -> None:
    @tool
    async def fetch(url: str) -> str:
        return url

    assert fetch.__tool__.parameters[0].name == "url"  # type: ignore[attr-defined]


def test_literals_enums_and_optionals() -> None:
    @tool
    def convert(
        unit: Literal["celsius", "fahrenheit"],
        other: Unit,
        digits: Optional[int] = None,  # noqa: UP045
        level: Literal[1, 2] | None = None,
    ) -> None: ...

    assert schema_of(convert) == {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "other": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "digits": {"type": ["integer", "null"]},
            "level": {"type": ["integer", "null"], "enum": [1, 2, None]},
        },
        "required": ["unit", "other"],
    }


def test_collections_unions_and_anything() -> None:
    @tool
    def collect(
        ids: list[int], tags: set[str], either: int | str, whatever: Any, bare=None
    ) -> None: ...  # type: ignore[no-untyped-def]

    properties = schema_of(collect)["properties"]
    assert properties["ids"] == {"type": "array", "items": {"type": "integer"}}
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}}
    assert properties["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert [option["type"] for option in properties["whatever"]["anyOf"]] == [
        "string",
        "number",
        "boolean",
        "array",
        "object",
    ]
    assert "anyOf" in properties["bare"]


def test_models_dataclasses_and_typed_dicts_are_objects() -> None:
    @tool
    def travel(to: Place, when: Span, how: Options, also: list[Options] | None = None) -> None: ...

    properties = schema_of(travel)["properties"]
    assert properties["to"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "zip": {"type": ["string", "null"], "description": "Postal code"},
        },
        "required": ["city"],
    }
    assert properties["when"]["properties"] == {
        "start": {"type": "integer"},
        "end": {"type": "integer"},
    }
    assert properties["when"]["required"] == ["start"]
    assert properties["how"] == {"type": "object", "properties": {"limit": {"type": "integer"}}}
    assert properties["also"] == {"type": ["array", "null"], "items": properties["how"]}


def test_a_type_that_holds_itself_ends_as_an_object() -> None:
    @tool
    def grow(tree: Tree) -> None: ...

    children = schema_of(grow)["properties"]["tree"]["properties"]["children"]
    assert children == {"type": "array", "items": {"type": "object"}}


def test_parameters_are_described_by_annotated_or_field() -> None:
    @tool
    def look(
        city: Annotated[str, "Where to look"],
        days: Annotated[int, Field(description="How far ahead", ge=1)] = 1,
    ) -> None: ...

    described: list[Property] = look.__tool__.parameters  # type: ignore[attr-defined]
    assert [prop.description for prop in described] == ["Where to look", "How far ahead"]
    assert described[1].default == 1


def test_the_context_parameter_is_not_shown_to_the_model() -> None:
    @tool
    def trace(ctx: ToolContext, city: str) -> None: ...

    assert [prop.name for prop in trace.__tool__.parameters] == ["city"]  # type: ignore[attr-defined]


def test_methods_are_described_without_self() -> None:
    class Shop:
        @tool
        def price(self, item: str) -> float:
            return float(len(item))

    assert [prop.name for prop in Shop().price.__tool__.parameters] == ["item"]  # type: ignore[attr-defined]


def test_approval_is_always_never_or_a_function() -> None:
    def check(arguments: JsonObject) -> bool:
        return True

    def spec(**options: Any) -> Any:
        return tool(**options)(lambda: None).__tool_spec__  # type: ignore[attr-defined]

    assert (spec(approval=check).needs_approval, spec(approval=check).approval_check) == (
        False,
        "plain",
    )
    assert (spec(approval="always").needs_approval, spec(approval="never").needs_approval) == (
        True,
        False,
    )
    stricter = spec(approval=check, needs_approval=True, approval_timeout=5)
    assert (stricter.needs_approval, stricter.approval_check, stricter.approval_timeout) == (
        True,
        None,
        5,
    )
    with pytest.raises(
        ConfigurationError, match="approval is 'maybe': expected 'always', 'never', or a function"
    ):
        tool(approval="maybe")(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(
        ConfigurationError, match="approval='never' contradicts needs_approval=True"
    ):
        tool(approval="never", needs_approval=True)(lambda: None)
