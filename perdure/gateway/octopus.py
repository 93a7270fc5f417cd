"""Octopus's chat: a message to a session, answered by the events of its turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..client import RunHandle
from ..errors import RunError
from ..interop.octopus import OctopusEvent, octopus_events, sse_frame
from .gateway import Gateway, OfferedAgent
from .held import unless_held, until_held
from .identity import Identity
from .operations import json_body, known_route, problem_of_request
from .problems import HttpProblem
from .sse import COMMENT, event_stream, frame, with_keepalives


def _field(name: str, **more: Any) -> Any:
    """Return a field that accepts `Name`, `name` and snake case."""
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    return Field(validation_alias=AliasChoices(name, name[0].upper() + name[1:], snake), **more)


class SendMessage(BaseModel):
    """The body of a message; other fields have no effect."""

    model_config = ConfigDict(extra="ignore")

    message: str = _field("message", min_length=1)
    agent_id: str | None = _field("agentId", default=None)
    message_id: str | None = _field("messageId", default=None)


class OctopusDialect:
    """`/api/chat/SESSION/send`."""

    name = "octopus"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""

        async def send(request: Request, identity: Identity) -> Response:
            asked = SendMessage.model_validate(await json_body(request))
            run = await _send_message(gateway, identity, request, asked)
            return event_stream(with_keepalives(_frames(gateway, identity, request, run)))

        return [known_route("/api/chat/{session}/send", "POST", gateway, send)]


async def _send_message(
    gateway: Gateway, identity: Identity, request: Request, asked: SendMessage
) -> RunHandle:
    """Send the message, and return the run that reads it, which may not have begun yet."""
    id = request.path_params["session"]
    key = asked.message_id or request.headers.get("idempotency-key")
    session = await gateway.session(identity, id, _offer(gateway, asked.agent_id))
    return await session.send(asked.message, while_busy="queue", message_id=key, by=identity.name)


def _offer(gateway: Gateway, name: str | None) -> OfferedAgent | None:
    """Return the agent of a new session, if known: a single agent need not be named."""
    if name:
        return gateway.offer(name)
    return next(iter(gateway.offers.values())) if len(gateway.offers) == 1 else None


async def _frames(
    gateway: Gateway, identity: Identity, request: Request, run: RunHandle
) -> AsyncGenerator[bytes, None]:
    """Yield the turn's events, `turn_end` last, preceded by an `error` with the reason if there is
    no answer.
    """
    yield COMMENT  # A turn that waits for earlier turns has not begun yet.
    end = OctopusEvent("turn_end", {"turn_id": run.id})
    try:
        async with aclosing(_events(gateway, identity, run)) as events:
            async for event in events:
                end = event
                yield COMMENT if event.event == "turn_end" else sse_frame(event).encode()
    except Exception as error:
        problem = HttpProblem(422, error.kind, str(error)) if isinstance(error, RunError) else None
        body = (problem or problem_of_request(error, request)).body
        yield frame(body.model_dump_json(), event="error")
    yield sse_frame(
        end if end.event == "turn_end" else OctopusEvent("turn_end", {"turn_id": run.id})
    ).encode()


async def _events(
    gateway: Gateway, identity: Identity, run: RunHandle
) -> AsyncGenerator[OctopusEvent, None]:
    """Yield the events of a turn that may not have begun yet. After the last, raises the run's
    error.
    """
    async with gateway.ending.waits.limit():
        agent = await unless_held(
            gateway, run.id, run.agent_name()
        )  # waits until the run has begun
    read = until_held(gateway, run.id, gateway.stream(await gateway.run(identity, run.id)))
    async with aclosing(
        octopus_events(run, agent_id=agent, events=read, held_back=gateway.stream_after)
    ) as events:
        async for event in events:
            yield event
