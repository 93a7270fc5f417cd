"""Operations of an HTTP API, declared once for routes and for an OpenAPI document."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, get_args, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import TypeVar

from .._version import __version__
from ..arguments import deeper_than
from ..json_types import JsonObject
from ..redaction import get_logger
from .gateway import Gateway
from .identity import ANYBODY, Identity
from .problems import HttpProblem, ProblemBody, faults_in, problem_of, too_large
from .recent import RecentAnswers, accepted_age

logger = get_logger("perdure.gateway")

MAX_DEPTH = 200
MAX_VALUES = 50_000
"""JSON values in one body; a text counts once."""
MAX_UNNAMED_BYTES = 2 * 1024 * 1024
"""Limit of the body of a request without a token; it is the maximum size of a tool call's
result."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string in JSON; an unclosed one extends to the end, so that the search runs once."""


def camel_case(name: str) -> str:
    """Return `a_name` as `aName`."""
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


class Nothing(BaseModel):
    """No parameters, or no body."""


Query = TypeVar("Query", bound=BaseModel, default=Nothing)
Body = TypeVar("Body", bound=BaseModel, default=Nothing)


@dataclass(frozen=True)
class HttpCall(Generic[Query, Body]):
    """One request of an operation, checked."""

    gateway: Gateway
    identity: Identity
    request: Request
    path: Mapping[str, str]
    query: Query
    body: Body


PROBLEMS = (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503)
"""The statuses of refusals."""


@dataclass(frozen=True)
class Endpoint:
    """One operation of an address."""

    method: str
    path: str
    """The path, with `{names}`; `{name:path}` also matches slashes."""
    handle: Callable[[HttpCall[Any, Any]], Awaitable[Response | BaseModel | Sequence[BaseModel]]]
    """Its annotations are the types of the query, the body and the answer; its docstring begins
    with the summary."""
    answer: Any = None
    """The type of the answer where `handle` returns a response; none for any."""
    status: int = 200
    is_open: bool = False
    """Whether the value in the path suffices as a credential; `HttpCall.identity` is `ANYBODY`
    then."""
    is_shared: bool = False
    """Whether clients of one tenant get the same answer, so that one of the last seconds is given
    to those that accept it (`Cache-Control: max-age=N`)."""
    is_for_operators: bool = False
    """Whether clients of a tenant are refused, because it concerns all tenants."""
    streams: bool = False
    """Whether it answers with server-sent events to clients that accept them."""

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return (self.handle.__doc__ or "").split("\n")[0]

    @cached_property
    def types(self) -> tuple[type[BaseModel], type[BaseModel], Any]:
        """The types of the query, of the body, and of the answer, a model or `list[model]`."""
        hints = get_type_hints(self.handle)
        query, body = get_args(hints["call"]) or (Nothing, Nothing)
        returned = Nothing if hints["return"] is Response else hints["return"]
        return query, body, self.answer or returned


def route_of(operation: Endpoint, gateway: Gateway) -> Route:
    """Return the route of an operation."""
    query_type, body_type, _ = operation.types
    recent = RecentAnswers()

    async def answer(request: Request) -> Response:
        try:
            is_unnamed = operation.is_open and "authorization" not in request.headers
            identity = ANYBODY if is_unnamed else await gateway.identify(request)
            if operation.is_for_operators:
                _require_operator(identity)
            path = dict(request.path_params)
            query = query_type.model_validate(dict(request.query_params))
            if is_unnamed and body_type is not Nothing:
                _require_small(request)
            sent = {} if body_type is Nothing else await json_body(request)
            body = body_type.model_validate(sent)
            call = HttpCall(gateway, identity, request, path, query, body)
            age = accepted_age(request.headers.get("cache-control", ""))
            if operation.is_shared and age:
                asked = (identity.tenant, request.url.path, request.url.query)
                done = await recent.get(asked, age, lambda: operation.handle(call))
            else:
                done = await operation.handle(call)
        except Exception as error:
            return problem_json(problem_of_request(error, request))
        if isinstance(done, Response):
            return done
        return JSONResponse(as_json(done), status_code=operation.status)

    return Route(operation.path, answer, methods=[operation.method])


def known_route(
    path: str,
    method: str,
    gateway: Gateway,
    handle: Callable[[Request, Identity], Awaitable[Response]],
    refuse: Callable[[HttpProblem], Response] | None = None,
) -> Route:
    """Return a route for authenticated clients; `refuse` writes errors in a form other than RFC
    9457's.
    """

    async def answer(request: Request) -> Response:
        try:
            return await handle(request, await gateway.identify(request))
        except Exception as error:
            return (refuse or problem_json)(problem_of_request(error, request))

    return Route(path, answer, methods=[method])


def _require_operator(identity: Identity) -> None:
    if identity.tenant is not None:
        raise HttpProblem(
            403,
            "not_operator",
            f"{identity.name} is of the tenant {identity.tenant!r}, and this concerns all tenants: "
            "expected somebody without a tenant",
        )


def _require_small(request: Request) -> None:
    """Raise `HttpProblem`, before reading, for an unauthenticated body that exceeds the size of a
    result.
    """
    length = request.headers.get("content-length", "")[:18]
    if not length.isdecimal():
        raise HttpProblem(
            411, "length_required", "a request without a token needs the header Content-Length"
        )
    if int(length) > MAX_UNNAMED_BYTES:
        raise too_large(MAX_UNNAMED_BYTES)


def as_json(value: BaseModel | Sequence[BaseModel]) -> Any:
    """Return the JSON form of an answer."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    return [each.model_dump(mode="json", by_alias=True) for each in value]


async def json_body(request: Request) -> Any:
    """Return the JSON in a request's body; an empty object for none. Raises `HttpProblem`."""
    body = await request.body()
    if not body:
        return {}
    type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if type != "application/json":
        raise HttpProblem(
            415,
            "media_type",
            f"the body has the type {type!r}: send the header Content-Type: application/json",
        )
    _require_few_values(body)
    try:
        value = json.loads(body, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise HttpProblem(400, "no_json", f"the body is not JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise HttpProblem(422, "invalid", f"expected a JSON object, not {type_name(value)}")
    if deeper_than(value, MAX_DEPTH):
        raise HttpProblem(422, "invalid", f"the body is nested more than {MAX_DEPTH} levels deep")
    return value


def _require_few_values(body: bytes) -> None:
    """Raise `HttpProblem` for too many values to be intended: each may be invalid and need an
    error.
    """
    if len(body) > MAX_VALUES and (values := _STRING.sub(b"", body).count(b",")) > MAX_VALUES:
        raise HttpProblem(
            413,
            "too_many_values",
            f"the body has {values:,} JSON values, expected at most {MAX_VALUES:,}",
        )


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number: expected null, or a text")


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(
            f"{text[:80]} is a larger number than can be kept: expected one up to 1.7e308, or a "
            "text"
        )
    return value


def type_name(value: Any) -> str:
    """Return the JSON name of this type."""
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


class JsonRpcEntrance:
    """Admits authenticated clients with an acceptable body, before a protocol's library reads
    anything.

    `scope["auth"]` then holds the identity. `require` raises `HttpProblem` for bodies that would
    overload the library.
    """

    def __init__(
        self,
        app: ASGIApp,
        gateway: Gateway,
        require: Callable[[JsonObject], None] = lambda body: None,
    ) -> None:
        self._app = app
        self._require = require
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        read: list[Message] = []
        try:
            scope["auth"] = await self._gateway.identify(request)
            if request.method == "POST":
                self._require(await json_body(request))
                read = [{"type": "http.request", "body": await request.body()}]
        except Exception as error:
            await json_rpc_refusal(problem_of_request(error, request))(scope, receive, send)
            return

        async def receive_again() -> Message:
            return read.pop() if read else await receive()

        await self._app(scope, receive_again, send)


_JSON_RPC_CODES = {"no_json": -32700, "invalid": -32600}


def json_rpc_refusal(problem: HttpProblem) -> JSONResponse:
    """Return the response to a JSON-RPC request that is refused unread."""
    error = {
        "code": _JSON_RPC_CODES.get(problem.kind, -32000),
        "message": str(problem),
        "data": {"kind": problem.kind},
    }
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(body, status_code=problem.status, headers=problem.headers)


def problem_json(problem: HttpProblem) -> JSONResponse:
    """Return the response that describes the problem (RFC 9457)."""
    return JSONResponse(
        problem.body.model_dump(mode="json"),
        status_code=problem.status,
        headers=problem.headers,
        media_type="application/problem+json",
    )


def problem_of_request(error: Exception, request: Request) -> HttpProblem:
    """Return the problem for an error. The log has the details of an unforeseen error; the response
    has none.
    """
    if isinstance(error, ValidationError):
        return HttpProblem(422, "invalid", faults_in(error))
    if isinstance(error, ClientDisconnect):
        return HttpProblem(400, "disconnected", "The client left before its request was complete")
    if problem := problem_of(error):
        return problem
    logger.error("%s %s has failed", request.method, request.url.path, exc_info=error)
    return HttpProblem(500, "internal", "The gateway has failed; see its log")


def openapi_document(operations: Iterable[Endpoint], *, title: str) -> JsonObject:
    """Return the OpenAPI 3.1 document of these operations."""
    listed = list(operations)
    models = {_model_of(type_) for each in listed for type_ in each.types[1:]} | {ProblemBody}
    _, definitions = models_json_schema(
        [(model, "validation") for model in models - {Nothing}],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, JsonObject] = {}
    for each in listed:
        path = re.sub(r":path}", "}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _operation_document(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}, {}],
    }


def _operation_document(operation: Endpoint) -> JsonObject:
    query, body, answer = operation.types
    content: JsonObject = {"application/json": {"schema": _schema_of(answer)}}
    if operation.streams:
        content["text/event-stream"] = {}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    described: JsonObject = {
        "operationId": camel_case(operation.handle.__name__),
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path), *_query_parameters(query)],
        "responses": {
            str(operation.status): {"description": "Done", "content": content},
            **{str(each): {"description": "Problem", "content": problem} for each in PROBLEMS},
        },
    }
    if body is not Nothing:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _schema_of(body)}},
        }
    return described


def _path_parameters(path: str) -> list[JsonObject]:
    names = re.findall(r"{(\w+)(?::path)?}", path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]


def _query_parameters(model: type[BaseModel]) -> list[JsonObject]:
    schema = model.model_json_schema()
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema.get("properties", {}).items()
    ]


def _model_of(answer: Any) -> type[BaseModel]:
    model: type[BaseModel] = (get_args(answer) or [answer])[0]
    return model


def _schema_of(answer: Any) -> JsonObject:
    reference = {"$ref": f"#/components/schemas/{_model_of(answer).__name__}"}
    if _model_of(answer) is Nothing:
        return {}
    return {"type": "array", "items": reference} if get_args(answer) else reference
