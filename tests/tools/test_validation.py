"""What a model is told about arguments that break the declaration."""

from __future__ import annotations

import pytest

from perdure.declared_tools import Property
from perdure.json_types import JsonObject
from perdure.tools.validation import find_problems, unknown_arguments, without_absent

PARAMETERS = [
    Property(name="city", kind="string", required=True),
    Property(name="days", kind="integer"),
    Property(name="unit", kind="string", enum_values=["celsius", "fahrenheit"]),
    Property(
        name="near", kind="object", properties=[Property(name="lat", kind="float", required=True)]
    ),
    Property(name="tags", kind="array", items=Property(kind="string")),
    Property(name="id", kind="union", any_of=[Property(kind="integer"), Property(kind="string")]),
]


def test_valid_arguments_have_no_problems() -> None:
    near = {"lat": 1, "lon": 2}
    assert (
        find_problems(
            PARAMETERS, {"city": "Paris", "days": 3, "near": near, "tags": ["a"], "id": "x"}
        )
        == []
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'city' is required (string)"),
        ({"city": 7}, "'city' must be string, got 7"),
        ({"city": None}, "'city' must be string, got null"),
        ({"city": "P", "days": "three"}, "'days' must be integer, got \"three\""),
        ({"city": "P", "days": 1.5}, "'days' must be integer, got 1.5"),
        (
            {"city": "P", "unit": "kelvin"},
            '\'unit\' must be one of "celsius", "fahrenheit", got "kelvin"',
        ),
        ({"city": "P", "near": {}}, "'near.lat' is required (number)"),
        ({"city": "P", "near": {"lat": "x"}}, "'near.lat' must be number, got \"x\""),
        ({"city": "P", "tags": ["a", 2]}, "'tags[1]' must be string, got 2"),
        ({"city": "P", "id": []}, "'id' must be integer or string, got []"),
    ],
)
def test_each_problem_names_the_field_what_was_expected_and_what_came(
    arguments: JsonObject, problem: str
) -> None:
    assert find_problems(PARAMETERS, arguments) == [problem]


def test_all_problems_are_told_at_once() -> None:
    assert find_problems(PARAMETERS, {"days": "three"}) == [
        "'city' is required (string)",
        "'days' must be integer, got \"three\"",
    ]


def test_long_values_and_long_lists_of_problems_are_cut() -> None:
    (problem,) = find_problems(PARAMETERS, {"city": ["x" * 1000]})
    assert len(problem) < 100
    problems = find_problems(PARAMETERS, {"city": "P", "tags": list(range(9))})
    assert len(problems) == 5


def test_null_means_not_given_for_what_is_optional() -> None:
    given = {"city": None, "days": None, "extra": None}
    assert without_absent(PARAMETERS, given) == {"city": None, "extra": None}
    nullable = [Property(name="days", kind="integer", nullable=True)]
    assert without_absent(nullable, {"days": None}) == {"days": None}


def test_each_unknown_argument_has_a_sentence() -> None:
    assert unknown_arguments(["city", "town", "when"], ["city", "days"]) == [
        "unknown argument 'town': expected city, days",
        "unknown argument 'when': expected city, days",
    ]
