"""A web server in front of the agent: each user has a conversation of their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from perdure.client import Session, connect, session


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    app.state.client = await connect()
    yield


def conversation(request: Request) -> Session:
    """The user's session. It needs no request and no state; the name is enough."""
    user = request.path_params["user"]
    return session(request.app.state.client, "rooms.prompty", f"user-{user}")


async def say(request: Request) -> JSONResponse:
    """Send the user's message, and answer when its run has ended."""
    run = await conversation(request).send((await request.json())["text"])
    return JSONResponse({"answer": (await run.result()).output, "run": run.id})


async def read(request: Request) -> JSONResponse:
    """The whole conversation."""
    messages = await conversation(request).messages()
    return JSONResponse([{"role": each.role, "text": each.text} for each in messages])


routes = [Route("/chat/{user}", say, methods=["POST"]), Route("/chat/{user}", read)]
app = Starlette(routes=routes, lifespan=lifespan)
