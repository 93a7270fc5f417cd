"""OpenAI's conversations: sessions, whose turns are responses."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from temporalio.client import WorkflowExecutionDescription

from ..client.deletion import delete_session
from ..json_types import JsonObject
from ..protocol.search_attributes import shown_of
from .gateway import MEMO, Gateway, digest_of
from .identity import Identity
from .openai_start import AgentRequest
from .openai_wire import read_request, refusal_response
from .operations import json_body, known_route
from .problems import BadParameter, Lenient
from .responses_wire import Metadata, input_item, page_of


class _NewConversation(Lenient):
    metadata: Metadata | None = Field(default=None, max_length=16)
    items: list[Any] | None = None
    model: str | None = None
    """The agent of the new conversation; the model of a later response replaces it."""


def conversation_routes(gateway: Gateway) -> list[BaseRoute]:
    """Return the routes of `/v1/conversations`."""

    async def create(request: Request, identity: Identity) -> Response:
        asked = read_request(_NewConversation, await json_body(request))
        if asked.items:
            raise BadParameter(
                "items",
                "items: a conversation begins empty: send them as input of its first response",
            )
        offer = gateway.offer(asked.model or next(iter(gateway.offers)))
        key = AgentRequest(gateway, identity, offer, request).key
        id = f"conv_{digest_of([identity.tenant, key]) if key else uuid.uuid4().hex}"
        session = await gateway.session(
            identity, id, offer, about={"metadata": asked.metadata or {}}
        )
        await session.begin()
        return JSONResponse(await _body(await gateway.described_session(identity, id)))

    async def show(request: Request, identity: Identity) -> Response:
        return JSONResponse(
            await _body(await gateway.described_session(identity, request.path_params["id"]))
        )

    async def delete(request: Request, identity: Identity) -> Response:
        described = await gateway.described_session(identity, request.path_params["id"])
        await delete_session(gateway.client, described.id)
        return JSONResponse({"id": described.id, "object": "conversation.deleted", "deleted": True})

    async def list_items(request: Request, identity: Identity) -> Response:
        session = await gateway.session(identity, request.path_params["id"])
        said = [
            each
            for each in await session.messages()
            if each.role in ("user", "assistant") and each.parts
        ]
        mark = digest_of([session.id])[:16]
        items = [input_item(f"msg_{mark}_{place}", each) for place, each in enumerate(said)]
        return JSONResponse(page_of(items, request.query_params))

    one = "/v1/conversations/{id:path}"
    return [
        known_route("/v1/conversations", "POST", gateway, create, refusal_response),
        known_route(f"{one}/items", "GET", gateway, list_items, refusal_response),
        known_route(one, "GET", gateway, show, refusal_response),
        known_route(one, "DELETE", gateway, delete, refusal_response),
    ]


async def _body(described: WorkflowExecutionDescription) -> JsonObject:
    about: JsonObject = await described.memo_value(MEMO, {})
    created = int((await shown_of(described)).started.timestamp())
    metadata = about.get("metadata") or {}
    return {
        "id": described.id,
        "object": "conversation",
        "created_at": created,
        "metadata": metadata,
    }
