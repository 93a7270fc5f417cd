"""Which functions take every call that an earlier one has taken."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from perdure.tool_calls import RecordedSignature
from perdure.tools.handlers import load_tools
from perdure.tools.signature_change import recorded_signature, signature_change


class Claim(TypedDict):
    number: int


class Tree(TypedDict):
    inner: NotRequired[list[Tree]]


class Fee(BaseModel):
    """What is paid."""

    title: str = Field(description="how it is called")
    euros: int = 1


class HigherFee(BaseModel):
    title: str
    euros: int = 999_999


class ToldFee(BaseModel):
    """Another text."""

    title: str = Field(description="another text")
    euros: int = 1


ToldFee.__name__ = ToldFee.__qualname__ = "Fee"


def then(a: str, b: int = 1) -> None: ...
def same(a: str, b: int = 1) -> None:
    """Another text."""


def other_default(a: str, b: int = 999_999) -> None: ...


def more(a: str, b: int = 1, *, c: str = "") -> None: ...
def anything(**given: Any) -> None: ...
def with_others(a: str, b: int = 1, **given: Any) -> None: ...
def renamed(a: str, c: int = 1) -> None: ...
def demanding(a: str, b: int) -> None: ...
@pytest.mark.parametrize("after", [other_default, more, with_others, renamed, demanding])
def test_another_parameter_is_a_change(after: Callable[..., Any]) -> None:
    assert "takes other arguments here than when the run began" in str(change(then, after))


def test_a_file_is_named_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text("def then(a: str) -> None: ...")
    [function] = load_tools(f"{tmp_path}/bank.py:then").values()
    assert str(change(then, function)).endswith("here it is t(a: string) in bank.py")


def change(before: Callable[..., Any], after: Callable[..., Any]) -> str | None:
    recorded = RecordedSignature.model_validate_json(recorded_signature(before).model_dump_json())
    return signature_change("t", recorded, after)


def of(annotation: Any) -> Callable[..., Any]:
    def function(x: Any) -> None: ...

    function.__annotations__["x"] = annotation
    return function


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (then, same),
        (anything, anything),
        (of(Annotated[str, "one text"]), of(Annotated[str, "another"])),
        (of(set[int]), of(set[int])),
        (of(Tree), of(Tree)),
        (of(Fee), of(ToldFee)),
    ],
)
def test_descriptions_are_not_part_of_it(before: Any, after: Any) -> None:
    assert change(before, after) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (str, datetime.date),
        (Annotated[int, Field(le=100)], Annotated[int, Field(le=10)]),
        (Literal["a", "b"], Literal["a"]),
        (dict[str, int], dict[str, Claim]),
        (Fee, HigherFee),
        (Any, int),
    ],
)
def test_another_type_is_a_change(before: Any, after: Any) -> None:
    assert change(of(before), of(after)) is not None
