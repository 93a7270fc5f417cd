"""OpenAI's Responses: each response is a run, or the part of a run between two decisions of
persons.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from .gateway import Gateway
from .identity import Identity
from .openai_wire import read_request, refusal_response
from .operations import json_body, known_route
from .problems import HttpProblem, Lenient
from .responses_create import Creation
from .responses_shown import ShownResponse
from .responses_text import MAX_NUMBER
from .responses_wire import Metadata, ResponseRequest


class _ShowQuery(Lenient):
    stream: bool = False
    starting_after: int | None = Field(default=None, ge=0, le=MAX_NUMBER)


class _NewConversation(Lenient):
    """The first response of a conversation begins its session: nothing is kept before."""

    metadata: Metadata | None = Field(default=None, max_length=16)
    items: list[Any] = Field(default=[], max_length=0)


class Responses:
    """`/v1/responses`, and ids of new conversations."""

    name = "openai-responses"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""

        async def create(request: Request, identity: Identity) -> Response:
            asked = read_request(ResponseRequest, await json_body(request))
            return await Creation(gateway, identity, request, asked).answer()

        async def show(request: Request, identity: Identity) -> Response:
            shown = await ShownResponse.find(gateway, identity, request.path_params["id"])
            asked = read_request(_ShowQuery, dict(request.query_params))
            if not asked.stream:
                return JSONResponse(await shown.body())
            return shown.stream(request, asked.starting_after)

        async def cancel(request: Request, identity: Identity) -> Response:
            shown = await ShownResponse.find(gateway, identity, request.path_params["id"])
            return JSONResponse(await shown.cancel())

        async def delete(request: Request, identity: Identity) -> Response:
            shown = await ShownResponse.find(gateway, identity, request.path_params["id"])
            await shown.delete()
            return JSONResponse({"id": str(shown.id), "object": "response", "deleted": True})

        async def converse(request: Request, identity: Identity) -> Response:
            asked = read_request(_NewConversation, await json_body(request))
            id = f"conv_{uuid.uuid4().hex}"
            made = {"id": id, "object": "conversation", "created_at": int(time.time())}
            return JSONResponse({**made, "metadata": asked.metadata or {}})

        one = "/v1/responses/{id:path}"
        return [
            known_route("/v1/conversations", "POST", gateway, converse, refusal_response),
            known_route("/v1/responses", "POST", gateway, create, refusal_response),
            known_route(f"{one}/cancel", "POST", gateway, cancel, refusal_response),
            known_route(one, "GET", gateway, show, refusal_response),
            known_route(one, "DELETE", gateway, delete, refusal_response),
        ]

    def refusal(self, problem: HttpProblem) -> Response:
        """Return the response to a request that is refused unread."""
        return refusal_response(problem)
