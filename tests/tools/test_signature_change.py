"""Which functions take every call that an earlier one has taken."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from perdure.tool_calls import RecordedSignature
from perdure.tools.handlers import load_tools
from perdure.tools.signature_change import recorded_signature, signature_change


class Claim(TypedDict):
    number: int


class LongerClaim(TypedDict):
    number: int
    note: NotRequired[str]


class OtherClaim(TypedDict):
    number: int
    year: int


class Tree(TypedDict):
    inner: NotRequired[list[Tree]]


class Bush(TypedDict):
    inner: NotRequired[list[dict[str, Any]]]


class Sparse(TypedDict, total=False):
    number: int


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
def untyped(a, b=1) -> None: ...  # type: ignore[no-untyped-def]
def wider(a: str | None, b: float = 1) -> None: ...
def renamed(a: str, c: int = 1) -> None: ...
def demanding(a: str, b: int) -> None: ...
def narrower(a: Literal["x", "y"], b: int = 1) -> None: ...
def other_kind(a: list[str], b: int = 1) -> None: ...
def new_and_required(a: str, c: str, b: int = 1) -> None: ...
def of_a_claim(claim: Claim) -> None: ...
def of_a_longer_claim(claim: LongerClaim) -> None: ...
def of_another_claim(claim: OtherClaim) -> None: ...
def of_texts(them: list[str]) -> None: ...
def of_numbers(them: list[int]) -> None: ...
def of_some(them: Literal["x", "y"]) -> None: ...
def of_fewer(them: Literal["x"]) -> None: ...


def test_a_file_is_named_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text("def then(a: str) -> None: ...")
    [function] = load_tools(f"{tmp_path}/bank.py:then").values()
    assert str(change(then, function)).endswith("here it is t(a: string) in bank.py")


def change(before: Callable[..., Any], after: Callable[..., Any]) -> str | None:
    recorded = RecordedSignature.model_validate_json(recorded_signature(before).model_dump_json())
    return signature_change("t", recorded, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((then, after) for after in (then, same, more, anything, untyped, wider)),
        (anything, anything),
        (of_a_claim, of_a_longer_claim),
        (of_fewer, of_some),
    ],
)
def test_takes_what_the_earlier_one_took(before: Callable[..., Any], after: Callable[..., Any]) -> None:
    assert change(before, after) is None


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (then, renamed, "'b' is gone"),
        (then, demanding, "'b' is required now"),
        (then, other_default, "'b' has another default"),
        (then, narrower, "'a' was string, and is now one that takes less"),
        (then, other_kind, "'a' was string, and is now array"),
        (then, new_and_required, "'c' is new and required"),
        (wider, then, "'a' was string, and is now one that takes less; 'b' was float, and is now integer"),
        (anything, then, "it took any arguments"),
        (of_a_claim, of_another_claim, "'claim' was object, and is now one that takes less"),
        (of_texts, of_numbers, "'them' was array, and is now one that takes less"),
        (of_some, of_fewer, "'them' was string, and is now one that takes less"),
    ],
)
def test_does_not(before: Callable[..., Any], after: Callable[..., Any], why: str) -> None:
    changed = change(before, after)
    assert changed is not None
    assert f": {why}. Then it was t(" in changed


def test_what_inputs_fill_in_may_be_new() -> None:
    recorded = recorded_signature(then)
    assert signature_change("t", recorded, new_and_required, bound={"c"}) is None


def of(annotation: Any) -> Callable[..., Any]:
    def function(x: Any) -> None: ...

    function.__annotations__["x"] = annotation
    return function


WIDER = [
    (int, float),
    (int, Any),
    (str, str | None),
    (int, int | str),
    (Literal["a"], Literal["a", "b"]),
    (Literal["a"], str),
    (datetime.date, str),
    (UUID, str),
    (Decimal, Decimal),
    (set[int], list[int]),
    (list[int], list[float]),
    (list[int], list),
    (dict[str, int], dict),
    (dict[str, int], dict[str, Any]),
    (Annotated[int, Field(le=100)], int),
    (Annotated[str, "one text"], Annotated[str, "another"]),
    (Claim, dict),
    (Tree, Tree),
    (Fee, ToldFee),
]
STRICTER = [
    (str, datetime.date),
    (str, UUID),
    (str, Decimal),
    (str, bytes),
    (str, Path),
    (str, Annotated[str, Field(max_length=3)]),
    (str, Annotated[str, Field(pattern="^a$")]),
    (str, Annotated[str, AfterValidator(str.upper)]),
    (int, Annotated[int, Field(le=100)]),
    (int, Annotated[int, Field(strict=True)]),
    (Annotated[int, Field(le=100)], Annotated[int, Field(le=10)]),
    (float, Decimal),
    (float, Decimal | None),
    (datetime.date, datetime.datetime),
    (list[int], tuple[int, int]),
    (list[int], set[int]),
    (list[int], Annotated[list[int], Field(max_length=1)]),
    (list[str], list[datetime.date]),
    (dict[str, int], dict[str, list[int]]),
    (dict[str, int], dict[str, Claim]),
    (dict[str, str], dict[str, int]),
    (dict[str, int], dict[int, int]),
    (dict, Sparse),
    (Bush, Tree),
    (Fee, HigherFee),
    (Any, int),
    (float, int),
]


@pytest.mark.parametrize(("before", "after"), WIDER)
def test_a_wider_type_takes_all(before: Any, after: Any) -> None:
    assert change(of(before), of(after)) is None


@pytest.mark.parametrize(("before", "after"), STRICTER)
def test_a_type_that_may_take_less_is_a_change(before: Any, after: Any) -> None:
    assert "'x' was " in (change(of(before), of(after)) or "")


def test_an_earlier_version_recorded_kinds_alone() -> None:
    recorded = recorded_signature(then)
    earlier = recorded.model_copy(update={"schemas": {}, "defaults": {}})
    assert earlier.model_dump().keys() == {"parameters"}
    assert signature_change("t", earlier, other_default) is None
    assert signature_change("t", earlier, demanding) is not None
