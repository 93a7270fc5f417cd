"""What the model is offered for an operation: names, one flat schema, which operations."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from perdure.declared_tools import OpenApiTool
from perdure.json_types import JsonObject
from perdure.tools.http import Http
from perdure.tools.openapi.document import Document, SpecificationError, read_document
from perdure.tools.openapi.kind import OpenApiKind
from perdure.tools.openapi.operations import offerings_of
from perdure.tools.openapi.security import RequestCredentials
from perdure.tools.openapi.sources import mistakes_in_file, offerings_at, offerings_in_file
from tests.support.openapi_specs import offer, one, request, spec
from tests.support.raw_server import RawServer, ok

OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    "required": ["a"],
}


def schema(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def parameters(document: JsonObject) -> JsonObject:
    return offer(document)[0].parameters


def body(
    schema: Any, media: str = "application/json", required: bool = True, **more: Any
) -> JsonObject:
    return {"required": required, "content": {media: {"schema": schema, **more}}}


def test_path_level_parameters_and_those_of_the_operation() -> None:
    shared = [
        {"name": "a", "in": "query", "schema": {"type": "string"}},
        {"name": "b", "in": "query"},
    ]
    own = [
        {
            "name": "a",
            "in": "query",
            "required": True,
            "description": "Own.",
            "schema": {"type": "integer"},
        }
    ]
    document = spec(
        {"/x": {"parameters": shared, "get": {"operationId": "call", "parameters": own}}}
    )
    assert parameters(document) == {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "Own."}, "b": {}},
        "required": ["a"],
    }


def test_the_fragment_of_a_path_tells_operations_apart_and_is_not_sent() -> None:
    path = {
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
    }
    document = spec(
        {"/files/{id}": {**path, "get": {}}, "/files/{id}#add_{link}": {**path, "get": {}}}
    )
    plain, linked = offer(document)
    assert (plain.name, linked.name) == ("GET_files_id", "GET_files_id_add__link")
    assert [each.name for each in offer(document, operations=["GET /files/{id}#add_{link}"])] == [
        linked.name
    ]
    document["paths"].pop("/files/{id}")
    assert request(document, {"id": "7#8"}).url.endswith("/v1/files/7%238")


def test_one_name_in_several_places() -> None:
    declared = [{"name": "id", "in": place, "schema": {}} for place in ("header", "query", "path")]
    document = one(
        "/{id}", "post", parameters=declared, requestBody=body({"properties": {"id": {}}})
    )
    assert list(parameters(document)["properties"]) == ["id", "query_id", "header_id", "body"]
    sent = request(document, {"id": 1, "query_id": 2, "header_id": 3, "body": {"id": 5}})
    assert sent.url.endswith("/1?id=2")
    assert dict(sent.headers)["id"] == b"3"
    assert sent.content.data == b'{"id":5}'


@pytest.mark.parametrize(
    ("declared", "arguments", "is_flat"),
    [
        (body(OBJECT), ["a", "b"], True),
        (body({**OBJECT, "additionalProperties": False}), ["a", "b"], True),
        (body(OBJECT, required=False), ["a", "b"], True),
        (body({"properties": {"a": {}}}, required=False), ["a"], True),
        (body({**OBJECT, "additionalProperties": True}), ["body"], False),
        (body({"type": ["object", "null"], "properties": {"a": {}}}), ["body"], False),
        (body({"properties": {"a b": {}}}), ["body"], False),
        (body({"allOf": [OBJECT, {"properties": {"c": {}}}]}), ["body"], False),
        (body({"type": "array", "items": {}}), ["body"], False),
        (body({"type": "string"}, "text/plain"), ["body"], False),
        (body(OBJECT, "application/x-www-form-urlencoded"), ["a", "b"], True),
        (body(OBJECT, "application/merge-patch+json"), ["a", "b"], True),
    ],
)
def test_a_body_s_properties_stand_for_themselves_where_they_can(
    declared: Any, arguments: list[str], is_flat: bool
) -> None:
    document = one("/x", "patch", requestBody=declared)
    assert list(parameters(document)["properties"]) == arguments
    assert (offer(document)[0].details["body"].get("argument") is None) == is_flat


def test_the_properties_of_an_optional_body_are_optional() -> None:
    assert "required" not in parameters(one("/x", "post", requestBody=body(OBJECT, required=False)))


@pytest.mark.parametrize(
    ("declared", "given", "media", "sent"),
    [
        (body(OBJECT), {"a": "ü", "b": None}, "application/json", '{"a":"ü","b":null}'.encode()),
        (body({"properties": {"a": {}}}), {}, "application/json", b"{}"),
        (body({"type": "array"}), {"body": [1, "x"]}, "application/json", b'[1,"x"]'),
        (body({"type": "array"}, required=False), {}, None, None),
        (body({}, "*/*"), {"body": "x"}, "application/json", b'"x"'),
        (body({}, "text/plain"), {"body": "x\ny"}, "text/plain", b"x\ny"),
        (body({}, "application/xml"), {"body": "<a/>"}, "application/xml", b"<a/>"),
        (
            body({"properties": {"a": {}, "b": {}, "c": {}}}, "application/x-www-form-urlencoded"),
            {"a": ["1", "2&3"], "b": {"x": 1}, "c": True},
            "application/x-www-form-urlencoded",
            b"a=1&a=2%263&b=%7B%22x%22%3A1%7D&c=true",
        ),
        (
            body(
                {"properties": {"a": {}, "b": {}}},
                "application/x-www-form-urlencoded",
                encoding={"a": {"style": "deepObject"}},
            ),
            {"a": {"x": 1}, "b": [1, 2]},
            "application/x-www-form-urlencoded",
            b"a%5Bx%5D=1&b=1&b=2",
        ),
    ],
)
def test_bodies(declared: Any, given: JsonObject, media: str | None, sent: bytes | None) -> None:
    content = request(one("/x", "post", requestBody=declared), given).content
    assert (content.media, content.data) == (media, sent)


def test_the_kind_of_body_that_is_preferred() -> None:
    content = {"text/plain": {}, "application/vnd.x+json": {}, "application/json": {}}
    chosen = []
    while content:
        chosen.append(
            offer(one("/x", "post", requestBody={"content": content}))[0].details["body"]["media"]
        )
        del content[chosen[-1]]
    assert chosen == ["application/json", "application/vnd.x+json", "text/plain"]


def test_what_no_model_can_write_is_not_offered_unless_the_file_names_it() -> None:
    document = one("/x", "post", requestBody=body({}, "multipart/form-data"))
    document["paths"]["/y"] = {"get": {"operationId": "y"}}
    assert [each.name for each in offer(document)] == ["y"]
    with pytest.raises(SpecificationError, match="POST /x: the request body has multipart/form-d"):
        offer(document, operations=["call", "y"])
    session = {"name": "s", "in": "cookie", "required": True}
    with pytest.raises(SpecificationError, match="GET /x: it requires the cookie parameter 's'"):
        offer(one("/x", parameters=[session]))


def test_schemas_of_3_0_become_today_s() -> None:
    old = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "nullable": True, "minimum": 1, "exclusiveMinimum": True},
            "e": {"type": "string", "nullable": True, "enum": ["x"], "example": "x"},
            "r": {"$ref": "#/components/schemas/R", "description": "Beside a reference."},
            "o": {"nullable": True, "allOf": [schema("R")], "description": "Or nothing."},
            "id": {"type": "string", "readOnly": True},
            "p": {"type": "string", "pattern": "^(a+)+$", "description": "Plus."},
        },
        "required": ["n", "id"],
    }
    components = {
        "schemas": {"R": {"type": "number", "maximum": 5, "exclusiveMaximum": False, "x-own": 1}}
    }
    found = parameters(one("/x", "post", "3.0.3", requestBody=body(old), components=components))
    assert found["properties"] == {
        "n": {"type": ["integer", "null"], "exclusiveMinimum": 1},
        "e": {"type": ["string", "null"], "enum": ["x", None]},
        "r": {"$ref": "#/$defs/R", "description": "Beside a reference."},
        "o": {
            "anyOf": [{"allOf": [{"$ref": "#/$defs/R"}]}, {"type": "null"}],
            "description": "Or nothing.",
        },
        "p": {"type": "string", "description": "Plus. (Matches the regular expression ^(a+)+$)"},
    }
    assert found["$defs"] == {"R": {"type": "number", "maximum": 5}}
    assert found["required"] == ["n"]


def test_references() -> None:
    schemas = {
        "Once": {"type": "string", "title": "Once"},
        "Node": {
            "type": "object",
            "properties": {
                "next": schema("Node"),
                "once": schema("Once"),
            },
        },
        "A": {"type": "array", "items": schema("B")},
        "B": {"anyOf": [schema("A"), {"type": "null"}]},
    }
    declared = [{"$ref": "#/components/parameters/P"}]
    components = {
        "schemas": schemas,
        "parameters": {"P": {"name": "p", "in": "query", "schema": schema("A")}},
        "requestBodies": {"R": body({"type": "object", "properties": {"node": schema("Node")}})},
    }
    document = one(
        "/x",
        "post",
        parameters=declared,
        requestBody={"$ref": "#/components/requestBodies/R"},
        components=components,
    )
    found = parameters(document)
    assert list(found["properties"]) == ["p", "node"]
    assert found["$defs"]["Node"]["properties"] == {
        "next": {"$ref": "#/$defs/Node"},
        "once": {"$ref": "#/$defs/Once"},
    }
    validator = Draft202012Validator(found)
    assert validator.is_valid({"p": [[None, []]], "node": {"next": {"next": {}}}})
    assert not validator.is_valid({"p": ["x"]})
    assert not validator.is_valid({"node": {"next": {"once": 1}}})


def test_a_bomb_of_references_stays_small() -> None:
    schemas: JsonObject = {"L0": {"type": "string"}}
    for level in range(1, 60):
        item = schema(f"L{level - 1}")
        schemas[f"L{level}"] = {"type": "object", "properties": {"a": item, "b": item}}
    document = one("/x", "post", requestBody=body(schema("L59")), components={"schemas": schemas})
    assert len(json.dumps(parameters(document))) < 20_000


def test_of_a_large_schema_the_nearest_parts_are_told() -> None:
    text = {"type": "string", "description": "x" * 200}
    schemas = {
        f"S{n}": {"properties": {f"p{n}": text, "next": schema(f"S{(n + 1) % 900}")}}
        for n in range(900)
    }
    found = parameters(
        one("/x", "post", requestBody=body(schema("S0")), components={"schemas": schemas})
    )
    assert 30_000 < len(json.dumps(found)) < 48_000
    assert list(found["properties"]) == ["p0", "next"]
    assert found["$defs"]["S1"]["properties"]["p1"] == text
    left_out = [each for each in found["$defs"].values() if "left out" in str(each)]
    assert [list(each) for each in left_out] == [["description"]] * 2
    assert Draft202012Validator(found).is_valid({"p0": "", "next": {"next": {}}})


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"swagger": "2.0"}, "Swagger 2.0 is not read: convert it"),
        ({"openapi": "4.0.0"}, "its `openapi` is '4.0.0'. Expected `openapi: 3.x.y`"),
        ([], "its `openapi` is None. Expected `openapi: 3.x.y`"),
        (one("/x", parameters=[{"$ref": "#/nowhere"}]), "GET /x: `.ref: #/nowhere` leads nowhere"),
        (
            one("/x", parameters=5),
            "GET /x: the operation.parameters: Input should be a valid list, got 5",
        ),
        (
            one("/x", parameters=[{"name": "a", "in": "query", "style": "x"}]),
            "has style 'x'. Expected one of form, deepObject",
        ),
        (
            one("/x", parameters=[{"name": "a", "in": "query", "schema": {"type": "strin"}}]),
            "wrong at 'properties/a/type'",
        ),
        (
            spec({"/x": {"post": {"operationId": "x", "requestBody": {}}}}),
            "no operation is left to offer, of 1",
        ),
        (spec({}), "no operation is left to offer, of 0"),
        (
            spec({f"/{n}": {"get": {}} for n in range(65)}),
            r"65 operations are too many .* at most 64: write `options: {op",
        ),
    ],
)
def test_what_can_t_be_offered(document: Any, problem: str) -> None:
    with pytest.raises(SpecificationError, match=problem):
        offer(document)


MANY = spec(
    {
        "/pets": {
            "get": {"operationId": "list pets!", "tags": ["pets"]},
            "post": {"tags": ["pets", "write"]},
        },
        "/pets/{id}": {"parameters": [{"name": "id", "in": "path"}], "delete": {"tags": ["write"]}},
        "/a": {"get": {"operationId": "same"}},
        "/b": {"get": {"operationId": "same"}},
    }
)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["list_pets", "POST_pets", "DELETE_pets_id", "same", "same_2"]),
        ({"operations": ["list pets!", "get /b"]}, ["list_pets", "same"]),
        ({"tags": ["write"]}, ["POST_pets", "DELETE_pets_id"]),
        ({"tags": ["write"], "operations": ["GET /a"]}, ["POST_pets", "DELETE_pets_id", "same"]),
        ({"tags": ["pets"], "exclude": ["POST /pets"]}, ["list_pets"]),
    ],
)
def test_the_filter(options: Any, names: list[str]) -> None:
    assert [each.name for each in offer(MANY, **options)] == names


def test_what_may_be_repeated() -> None:
    methods = {
        method: {"operationId": method}
        for method in ("get", "put", "post", "delete", "options", "head", "patch")
    }
    found = {each.name: each.idempotent for each in offer(spec({"/x": methods}))}
    assert [name for name, is_idempotent in found.items() if not is_idempotent] == ["post", "patch"]


def test_the_header_of_the_idempotency_key() -> None:
    document = one(
        "/x", "post", parameters=[{"name": "Idempotency-Key", "in": "header", "required": True}]
    )
    assert parameters(document) == {"type": "object", "properties": {}}
    assert (
        dict(request(document, {}, key="run/1/call_1").headers)["Idempotency-Key"]
        == b"run/1/call_1"
    )
    assert "Idempotency-Key" not in dict(request(one("/x", "post"), {}, key="run").headers)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"operation": ["x"]}, "options.operation is unknown (did you mean 'operations'?)"),
        ({"tags": "x"}, "options.tags: Input should be a valid list"),
    ],
)
def test_problems_of_declarations(options: Any, problem: str) -> None:
    [found] = OpenApiKind().problems(OpenApiTool(name="a", specification="x.json", options=options))
    assert problem in found


def test_a_specification_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "api.yaml").write_text(
        "openapi: 3.1.0\npaths:\n  /x: {$ref: '#/x-parts/x'}\n  /y: {$ref: '#/x-parts/x'}\n"
        "x-parts: {x: {get: {parameters: [{name: a, in: query, schema: {type: string}}]}}}\n"
    )
    found = offerings_in_file("api.yaml", tmp_path, {"exclude": ["GET /y"]})
    assert found[0].parameters["properties"] == {"a": {"type": "string"}}
    with pytest.raises(SpecificationError, match="there is no file '.*gone.yaml'"):
        offerings_in_file("gone.yaml", tmp_path, {})
    assert mistakes_in_file("api.yaml", tmp_path) == ["the document: 'info' is a required property"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "x is not valid JSON"),
        ("[" * 100_000, "x is not valid JSON"),
        ('{"a": NaN}', "NaN is not a JSON value"),
        ("[" + "[]," * 500_000 + "0]", "it has more than 500,000 values"),
        ("[" + "0," * 500_000 + "0]", "it has more than 500,000 values"),
        ("a: [", "x:2 is not valid YAML"),
        ("a: *b", "is not valid YAML"),
    ],
)
def test_texts_that_are_no_documents(text: str, problem: str) -> None:
    with pytest.raises(SpecificationError, match=problem):
        read_document(text, "x")


async def test_a_document_that_is_too_large(ours: RawServer, tmp_path: Path) -> None:
    text = b'{"openapi": "' + b"x" * (16 * 2**20) + b'"}'
    ours.answers["/spec.json"] = ok(text)
    (tmp_path / "spec.json").write_bytes(text)
    http, problem = Http(), "it has more than 16,777,216 bytes"
    with pytest.raises(SpecificationError, match=problem):
        offerings_in_file("spec.json", tmp_path, {})
    with pytest.raises(SpecificationError, match=problem):
        await offerings_at(f"{ours.url}/spec.json", {}, http, RequestCredentials())
    await http.close()


def test_nonsense_in_any_place_is_a_problem_that_is_told() -> None:
    """Any value of a specification replaced by any other one leads to functions, or to an error of
    the one type.
    """
    chance = random.Random(7)
    components = {
        "schemas": {"S": {"type": "object", "properties": {"s": schema("S")}, "required": ["s"]}},
        "securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X"}},
    }
    declared = [{"name": "a", "in": "query", "schema": schema("S"), "explode": False}]
    form = body(
        {"properties": {"f": {"type": "string"}}},
        "application/x-www-form-urlencoded",
        encoding={"f": {"style": "deepObject"}},
    )
    document = one(
        "/x/{p}", "post", parameters=[*declared, {"name": "p", "in": "path"}], requestBody=form, tags=["t"],
        summary="s", responses={"200": {"content": {"application/json": {}}}}, security=[{"k": []}],
        components=components,
        servers=[{"url": "https://{a}.example", "variables": {"a": {"default": "x"}}}],
    )  # fmt: skip
    outcomes = set()
    for _ in range(500):
        broken = json.loads(json.dumps(document))
        *way, last = chance.choice(list(_places(broken)))
        place = broken
        for step in way:
            place = place[step]
        place[last] = chance.choice(
            [None, 5, "x", "#/", [], {}, [{}], {"$ref": "#/paths"}, {"$ref": 5}, True, [None], "\0"]
        )
        try:
            offerings_of(Document(broken), {}, None)
            outcomes.add("offered")
        except SpecificationError:
            outcomes.add("told")
    assert outcomes == {"offered", "told"}


def _places(value: Any, place: tuple[Any, ...] = ()) -> Any:
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, child in steps:
        yield (*place, step)
        yield from _places(child, (*place, step))
