"""A push service on loopback with its browsers: it decrypts what a gateway sends, and verifies who
has sent it.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import http_ece
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.json_types import JsonObject
from perdure.payloads.codec_server.app import serve


def base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def unbased(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class PushService:
    """All its browsers have the same keys; their names are the paths of their endpoints."""

    def __init__(self) -> None:
        self.url = ""
        self.taken: list[tuple[str, JsonObject]] = []
        """Names of browsers, and messages."""
        self.headers: list[dict[str, str]] = []
        self.claims: list[JsonObject] = []
        self.statuses: dict[str, int] = {}
        """The answers to messages for some browsers; the others' is 201."""
        self._key, self._secret = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
        self.public_key = self._key.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )

    @property
    def host(self) -> str:
        return self.url.rpartition("/")[2]

    def subscription(self, name: str) -> JsonObject:
        """What the browser of that name gives to pages."""
        keys = {"p256dh": base64url(self.public_key), "auth": base64url(self._secret)}
        return {"endpoint": f"{self.url}/{name}", "keys": keys}

    def told(self, name: str) -> list[str]:
        """The runs of which this browser was told."""
        return [message["run"] for to, message in self.taken if to == name]

    async def take(self, request: Request) -> Response:
        text = http_ece.decrypt(
            await request.body(), private_key=self._key, auth_secret=self._secret
        )
        kind, _, rest = request.headers["authorization"].partition(" ")
        token, key = (part.partition("=")[2] for part in rest.split(","))
        assert kind == "vapid"
        signer = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), unbased(key))
        claims = jwt.decode(token, signer, algorithms=["ES256"], audience=self.url)
        self.claims.append({**claims, "key": key})
        self.headers.append(dict(request.headers))
        name = request.path_params["name"]
        self.taken.append((name, json.loads(text)))
        status = self.statuses.get(name, 201)
        return Response(status_code=status, headers={"location": f"{self.url}/elsewhere"})


@asynccontextmanager
async def push_service() -> AsyncIterator[PushService]:
    """The service, for as long as the block runs."""
    service = PushService()
    routes = [Route("/{name}", service.take, methods=["POST", "GET"])]
    async with serve(Starlette(routes=routes), "127.0.0.1", 0) as url:
        service.url = url.rstrip("/")
        yield service
