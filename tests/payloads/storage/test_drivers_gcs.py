"""Values in Google Cloud Storage, played by a few lines of HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from perdure.payloads.converter import data_converter
from perdure.payloads.storage import close_storage
from perdure.payloads.storage.files import NOT_STORED

from ...support.stored import LARGE, require_damage_found, require_own_values_removed

pytestmark = pytest.mark.filterwarnings("default")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Bucket

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path.endswith("/o"):
            self._list(parse_qs(parts.query))
            return
        data = self.server.objects.get(unquote(parts.path.rpartition("/o/")[2]))
        if data is None:
            self._send(404, b"{}")
        else:
            self._send(200, data if "alt=media" in parts.query else b'{"name": "it is there"}')

    def _list(self, query: dict[str, list[str]]) -> None:
        """One object a page."""
        names = sorted(name for name in self.server.objects if name.startswith(query["prefix"][0]))
        place = int(query.get("pageToken", ["0"])[0])
        items = [
            {"name": name, "updated": "2026-01-31T08:00:00.123Z"}
            for name in names[place : place + 1]
        ]
        more = {"nextPageToken": str(place + 1)} if place + 1 < len(names) else {}
        self._send(200, json.dumps({"items": items, **more}).encode())

    def do_DELETE(self) -> None:
        name = unquote(urlsplit(self.path).path.rpartition("/o/")[2])
        self._send(204 if self.server.objects.pop(name, None) else 404, b"")

    def do_POST(self) -> None:
        name, data = (
            parse_qs(urlsplit(self.path).query)["name"][0],
            self.rfile.read(int(self.headers["content-length"])),
        )
        if self.server.refusals:
            self._send(self.server.refusals.pop(), b"{}")
            return
        self.server.objects[name] = data
        self._send(200, json.dumps({"name": name}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


class Bucket(ThreadingHTTPServer):
    """The objects of one bucket."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.refusals: list[int] = []
        """Statuses of the next answers to values."""
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    bucket = Bucket()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{bucket.server_port}")
    yield bucket
    bucket.shutdown()
    bucket.server_close()


@pytest.fixture
def converter(bucket: Bucket) -> DataConverter:
    return data_converter(storage="gs://values/perdure/tests")


async def test_a_large_value_is_stored_under_the_prefix_damaged_and_lost(
    converter: DataConverter, bucket: Bucket
) -> None:
    async def write(data: bytes | None) -> str:
        [name] = bucket.objects
        bucket.objects = {} if data is None else {name: data}
        return name

    await require_damage_found(converter, write)
    await close_storage()


@pytest.mark.parametrize("status", [403, 507])
async def test_a_bucket_that_refuses_a_value(
    converter: DataConverter, bucket: Bucket, status: int
) -> None:
    """One refusal passes; what made the value, such as a tool, is not done again for those that
    stay.
    """
    bucket.refusals = [status]
    assert await converter.decode(await converter.encode([LARGE]), [str]) == [LARGE]
    bucket.objects.clear()
    bucket.refusals = [status] * 100
    with pytest.raises(
        ApplicationError, match=rf"can't be stored in the bucket \(PERDURE_STORAGE\): {status}"
    ) as raised:
        await converter.encode([LARGE])
    assert (raised.value.type, raised.value.non_retryable) == (NOT_STORED, True)
    await close_storage()


async def test_the_values_of_a_run_are_found_and_removed(
    converter: DataConverter, bucket: Bucket, client: Client
) -> None:
    await require_own_values_removed(converter, client)
    assert not bucket.objects
    await close_storage()
