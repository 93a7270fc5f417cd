"""The page: runs, decisions and sessions in a browser, by the gateway's own API."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from .gateway import Gateway
from .page_file import FOLDER, import_map_of, source_hash

_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
"""Browsers ask again after an upgrade: the document and its modules belong together."""


_WORKER_HEADERS = {
    "Service-Worker-Allowed": "../",
    "Content-Security-Policy": "default-src 'none'",
}
"""The service worker belongs to the whole page, and needs nothing but itself."""


class _Files(StaticFiles):
    def file_response(self, *args: Any, **named: Any) -> Response:
        """Return the file, or that it has not changed."""
        response = super().file_response(*args, **named)
        response.headers.update(_HEADERS)
        if Path(args[0]).name == "push_worker.js":
            response.headers.update(_WORKER_HEADERS)
        return response


def content_policy(document: str) -> str:
    """Return the Content-Security-Policy of the document: nothing from other hosts, and no inline
    script but its import map, by hash.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {source_hash(import_map_of(document))}",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self'",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


class PageDialect:
    """The page at `/`, and its files below `/page`. They contain no data, and need no token."""

    name = "page"

    def routes(self, gateway: Gateway) -> Sequence[BaseRoute]:
        """Return the routes."""
        text = (FOLDER / "index.html").read_text(encoding="utf-8")
        headers = {**_HEADERS, "Content-Security-Policy": content_policy(text)}

        async def document(request: Request) -> Response:
            return HTMLResponse(text, headers=headers)

        files = GZipMiddleware(_Files(directory=FOLDER))
        return [Route("/", document), Mount("/page", files)]
