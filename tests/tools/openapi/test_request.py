"""Values of parameters are written as the specification's table of styles says, and as FastAPI
reads them.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.tools.openapi.operation import Operation, Parameter
from perdure.tools.openapi.request import Unfit, query_pairs, request_of, simple_text
from perdure.tools.openapi.security import RequestCredentials
from tests.support.openapi_specs import BASE, one, request

EMPTY, STRING, ARRAY, OBJECT = (
    "",
    "blue",
    ["blue", "black", "brown"],
    {"R": 100, "G": 200, "B": 150},
)


@pytest.mark.parametrize(
    ("explode", "value", "expected"),
    [
        (False, EMPTY, ""),
        (False, STRING, "blue"),
        (False, ARRAY, "blue,black,brown"),
        (False, OBJECT, "R,100,G,200,B,150"),
        (True, ARRAY, "blue,black,brown"),
        (True, OBJECT, "R=100,G=200,B=150"),
    ],
)
def test_simple(explode: bool, value: Any, expected: str) -> None:
    assert simple_text(value, explode=explode) == expected


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("form", False, EMPTY, "color="),
        ("form", False, STRING, "color=blue"),
        ("form", False, ARRAY, "color=blue,black,brown"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, EMPTY, "color="),
        ("form", True, STRING, "color=blue"),
        ("form", True, ARRAY, "color=blue&color=black&color=brown"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        ("deepObject", True, {"a": {"b": [1, 2]}}, "color%5Ba%5D%5Bb%5D=1&color%5Ba%5D%5Bb%5D=2"),
        ("form", True, True, "color=true"),
        ("form", True, 1.5, "color=1.5"),
        ("form", True, "a b&c=d/ü", "color=a%20b%26c%3Dd%2F%C3%BC"),
        ("form", False, ["a,b", "c"], "color=a%2Cb,c"),
        ("form", True, [{"a": 1}], "color=%7B%22a%22%3A1%7D"),
        ("form", True, {"a": None, "b": 1}, "b=1"),
    ],
)
def test_query(style: str, explode: bool, value: Any, expected: str) -> None:
    pairs = query_pairs("color", value, style=style, explode=explode)
    assert "&".join(f"{name}={text}" for name, text in pairs) == expected


def parameter(place: str, **more: Any) -> JsonObject:
    return {"name": "v", "in": place, "required": True, "schema": {}, **more}


@pytest.mark.parametrize(
    ("path", "declared", "value", "expected"),
    [
        ("/a/{v}", parameter("path"), ARRAY, "/a/blue,black,brown"),
        ("/a/{v}.json", parameter("path"), "x/y z", "/a/x%2Fy%20z.json"),
        ("/a/{v}", parameter("path"), "100%", "/a/100%25"),
        ("/a", parameter("query"), ARRAY, "/a?v=blue&v=black&v=brown"),
        ("/a", parameter("query", explode=False), ARRAY, "/a?v=blue,black,brown"),
        (
            "/a",
            parameter("query", content={"application/json": {"schema": {}}}),
            {"x": [1]},
            "/a?v=%7B%22x%22%3A%5B1%5D%7D",
        ),
        ("/a", parameter("query", content={"text/plain": {}}), "x y", "/a?v=x%20y"),
    ],
)
def test_defaults_of_each_place(path: str, declared: Any, value: Any, expected: str) -> None:
    assert request(one(path, parameters=[declared]), {"v": value}).url == BASE + expected


def test_headers_are_written_as_they_are() -> None:
    declared = [
        {"name": "X-List", "in": "header", "schema": {"type": "array"}},
        {"name": "X-Map", "in": "header", "explode": True, "schema": {"type": "object"}},
        {"name": "X-Name", "in": "header", "schema": {}},
    ]
    given = {
        "X-List": [1, 2],
        "X-Map": {"a": 1, "b": "c d"},
        "X-Name": "Zoë, x",
    }
    headers = dict(request(one("/a", parameters=declared), given).headers)
    assert headers["X-List"] == b"1,2"
    assert headers["X-Map"] == b"a=1,b=c d"
    assert headers["X-Name"] == "Zoë, x".encode()


def test_an_absent_argument_is_not_sent() -> None:
    declared = [
        {"name": "a", "in": "query"},
        {"name": "b", "in": "header"},
    ]
    sent = request(one("/a", parameters=declared), {"a": None})
    assert sent.url == f"{BASE}/a"
    assert dict(sent.headers).keys() == {"Accept"}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (".{v}/x", "evil.example", "they lead to another server"),
        ("/a/{v}", "..;x", "a part of it must not be '.' or '..'"),
    ],
)
def test_arguments_that_lead_elsewhere(path: str, value: str, problem: str) -> None:
    parameter = Parameter(name="v", argument="v", place="path")
    base = "https://api.example.com"
    operation = Operation(method="GET", path=path, server=base, parameters=[parameter])
    with pytest.raises(Unfit, match=re.escape(problem)):
        request_of(operation, base, {"v": value}, RequestCredentials(), "")
