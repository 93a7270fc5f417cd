"""An HTTP API of FastAPI on loopback, which knows who has called it, and can be slow, dead or
strange.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import (
    Depends,
    FastAPI,
    Form,
    Header,
    HTTPException,
    Query,
    Request,
    Response,
)
from fastapi.responses import PlainTextResponse, RedirectResponse
from fastapi.security import APIKeyHeader
from pydantic import BaseModel

from perdure.json_types import JsonObject

KEY = "petkey-0123456789"
REQUIRED = APIKeyHeader(name="X-Api-Key")
PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


class Pet(BaseModel):
    name: str
    age: int | None = None
    parents: list[Pet] = []


class Service:
    """The running API."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """Method and path → requests that have begun."""
        self.aborted: Counter[str] = Counter()
        """Slow ones whose caller went away."""
        self.keys: list[str] = []
        """The idempotency keys that were sent."""
        self.release = threading.Event()
        """Lets slow answers come."""
        self.url = ""
        self._app = make_app(self)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application, which counts its calls."""
        self.calls[f"{scope['method']} {scope['path']}"] += 1
        self.keys += [
            value.decode() for name, value in scope["headers"] if name == b"idempotency-key"
        ]
        await self._app(scope, receive, send)

    def reset(self) -> None:
        """Forget who has called."""
        self.calls.clear()
        self.aborted.clear()
        self.keys.clear()
        self.release.clear()

    @property
    def specification(self) -> str:
        return f"{self.url}/openapi.json"


def make_app(service: Service) -> FastAPI:
    app = FastAPI(title="Pets")

    @app.get("/pets/{pet_id}", operation_id="getPet", tags=["pets"])
    def get_pet(
        pet_id: str,
        request: Request,
        tag: Annotated[list[str], Query()] = [],  # noqa: B006
        x_note: Annotated[str | None, Header()] = None,
    ) -> JsonObject:
        """Finds a pet."""
        if pet_id == "none":
            raise HTTPException(404, "no such pet")
        return {"id": pet_id, "tags": tag, "note": x_note}

    @app.post("/pets", operation_id="addPet", tags=["pets"], status_code=201)
    def add_pet(
        pet: Pet,
        response: Response,
        key: Annotated[str, Depends(REQUIRED)],
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Pet:
        if key != KEY:
            raise HTTPException(403, f"{key} is not the key")
        return pet

    @app.post("/forms", operation_id="sign")
    def sign(title: Annotated[str, Form()], n: Annotated[list[int], Form()]) -> Any:
        return {"title": title, "n": n}

    @app.get("/picture", operation_id="picture")
    def picture() -> Response:
        return Response(PIXEL, media_type="image/png")

    async def slow(request: Request) -> dict[str, str]:
        while not service.release.is_set():
            if await request.is_disconnected():
                service.aborted[request.method] += 1
                break
            await asyncio.sleep(0.02)
        return {"done": request.method}

    app.get("/slow", operation_id="slowGet")(slow)
    app.post("/slow", operation_id="slowPost")(slow)

    @app.get("/nonsense", operation_id="nonsense")
    def nonsense() -> Response:
        return Response(b'{"a": \xff<html>', media_type="application/json")

    @app.get("/elsewhere", operation_id="elsewhere")
    def elsewhere(to: str) -> Response:
        return RedirectResponse(to)

    @app.get("/hello", operation_id="hello")
    def hello() -> PlainTextResponse:
        return PlainTextResponse("Hello, Zoë")

    return app


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The URL of an ASGI application that is served on loopback while the block runs."""
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            port=0,
            log_level="error",
            lifespan="off",
            interface="asgi3",
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the server did not start")
        threading.Event().wait(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
