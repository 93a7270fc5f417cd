"""Declarations that are put together: names, prefixes and filters, as data."""

from __future__ import annotations

import pytest

from perdure.json_types import JsonObject
from perdure.toolsets import with_filter, with_prefix

FIND: JsonObject = {"name": "find"}
DELETE: JsonObject = {"name": "delete", "kind": "function"}
FILES: JsonObject = {"name": "files", "kind": "mcp", "perdure": {"timeout": 3}}
PETS: JsonObject = {"name": "pets", "kind": "openapi"}


def test_a_prefix_goes_before_an_earlier_one_and_leaves_the_rest_of_the_policy() -> None:
    assert with_prefix(with_prefix(FILES, "a"), "b") == {
        **FILES,
        "perdure": {"timeout": 3, "prefix": "b_a"},
    }
    assert FILES["perdure"] == {"timeout": 3}


def test_functions_are_taken_by_name_and_other_names_are_left_to_the_one_tool_that_may_offer_them() -> (
    None
):
    assert with_filter([FIND, DELETE], ["find"], keeps=True) == [FIND]
    assert with_filter([FIND, DELETE, FILES], ["find"], keeps=True) == [FIND]
    assert with_filter([FIND, DELETE, FILES], ["find"], keeps=False) == [DELETE, FILES]
    allowed = {"timeout": 3, "allowedTools": ["read"]}
    assert with_filter([FIND, FILES], ["find", "read"], keeps=True) == [
        FIND,
        {**FILES, "perdure": allowed},
    ]
    denied = {"timeout": 3, "deniedTools": ["write"]}
    assert with_filter([FIND, FILES], ["write"], keeps=False) == [
        FIND,
        {**FILES, "perdure": denied},
    ]


def test_filters_add_up_and_follow_the_prefix() -> None:
    [tool] = with_filter([with_prefix(PETS, "zoo")], ["zoo_get", "zoo_add"], keeps=True)
    [tool] = with_filter([tool], ["zoo_get", "zoo_other"], keeps=True)
    [tool] = with_filter([tool], ["zoo_a"], keeps=False)
    [tool] = with_filter([tool], ["zoo_b"], keeps=False)
    assert tool["perdure"] == {"prefix": "zoo", "allowedTools": ["get"], "deniedTools": ["a", "b"]}
    assert with_filter([with_prefix(FIND, "crm")], ["crm_find"], keeps=False) == []


@pytest.mark.parametrize(
    ("tools", "name", "text"),
    [
        ([FIND, DELETE], "fnd", "no function is named 'fnd'; there: find, delete"),
        ([FILES, PETS], "read", "no function is named 'read'; there: none. Of several tools"),
        (
            [with_prefix(FILES, "fs")],
            "read",
            "'files' does not offer 'read': its names begin with 'fs_'",
        ),
    ],
)
def test_a_name_that_nothing_can_have_is_refused(
    tools: list[JsonObject], name: str, text: str
) -> None:
    for keeps in (True, False):
        with pytest.raises(ValueError, match=text):
            with_filter(tools, [name], keeps=keeps)
