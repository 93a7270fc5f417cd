"""The codec server over HTTP, asked as Temporal's UI and CLI do."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import zstandard
from google.protobuf.json_format import MessageToDict, ParseDict
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import DataConverter

from perdure.client.embedded.launch import find_binary
from perdure.payloads.codec_server.app import (
    MAX_ANSWER_BYTES,
    MAX_BODY_BYTES,
    MAX_OBJECTS,
    codec_app,
    decode,
    serve,
)
from perdure.payloads.converter import data_converter, perdure_data_converter
from perdure.payloads.encryption.codec import ENCODING
from perdure.payloads.encryption.keys import new_key
from perdure.testing import says
from tests.runs.test_encryption import Scripted, with_key
from tests.support.agents import scripted_agent
from tests.support.stage import Stage

KEY = new_key("test")
UI = "http://localhost:8233"
TEXT = "what nobody else may read"
NAMESPACE = {"X-Namespace": "default"}


@asynccontextmanager
async def asking(
    converter: DataConverter | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    app = codec_app(converter or data_converter(encryption=KEY), ui_origins=[UI], **options)
    async with serve(app, "127.0.0.1", 0) as url, httpx.AsyncClient(base_url=url) as http:
        yield http


async def ask(http: httpx.AsyncClient, path: str, *payloads: Payload, **headers: str) -> Any:
    body = MessageToDict(Payloads(payloads=payloads))
    return await http.post(path, json=body, headers={**NAMESPACE, **headers})


def payloads_in(response: Any) -> list[Payload]:
    assert response.status_code == 200, response.text
    return list(ParseDict(response.json(), Payloads()).payloads)


async def test_decode_and_encode() -> None:
    plain = await perdure_data_converter.encode([TEXT, {"a": 1}])
    async with asking() as http:
        sealed = payloads_in(await ask(http, "/some/prefix/encode", *plain))
        assert [payload.metadata["encoding"] for payload in sealed] == [ENCODING, ENCODING]
        assert payloads_in(
            await ask(http, "/decode?preserveStorageRefs=true", *sealed, *plain)
        ) == [*plain, *plain]


async def test_an_answer_is_bounded_whatever_it_would_unpack_to() -> None:
    whole = Payload(metadata={"encoding": b"json/plain"}, data=b"0" * (MAX_ANSWER_BYTES // 2))
    bomb = Payload(
        metadata={"encoding": b"binary/zstd"}, data=zstandard.compress(whole.SerializeToString())
    )
    assert await decode(perdure_data_converter, [bomb] * 1000, False) == [whole, *[bomb] * 999]
    zeros = zstandard.compress(bytes(MAX_ANSWER_BYTES // 2))
    garbage = Payload(metadata=bomb.metadata, data=zeros)
    packed = await perdure_data_converter.encode([TEXT * 10_000])
    answered = await decode(perdure_data_converter, [*[garbage] * 5, *packed], False)
    assert answered == [*[garbage] * 5, *packed], "what unpacks to garbage counts, too"


async def test_what_can_t_be_unpacked_is_a_line_in_the_log_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not a traceback: anybody may send a thousand of them."""
    large = Payload(
        metadata={"encoding": b"json/plain"}, data=b"0" * (MAX_ANSWER_BYTES + 1)
    ).SerializeToString()
    bomb = Payload(metadata={"encoding": b"binary/zstd"}, data=zstandard.compress(large))
    assert await decode(perdure_data_converter, [bomb] * 300, False) == [bomb] * 300
    assert sum(len(caplog.handler.format(each)) for each in caplog.records) < 300 * 250
    assert not any(each.exc_info for each in caplog.records)


async def test_a_request_that_never_ends_does_not_keep_the_server() -> None:
    async with serve(codec_app(perdure_data_converter), "127.0.0.1", 0) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        head = (
            b"POST /decode HTTP/1.1\r\nHost: a\r\nContent-Type: "
            b"application/json\r\nContent-Length: 9\r\n"
        )
        writer.write(head + b"Expect: 100-continue\r\n\r\n")
        assert b"100" in await reader.readline()  # by now it waits for the body
    writer.close()


async def test_what_cannot_be_decoded_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    [good, changed] = await data_converter(encryption=KEY).encode([TEXT, TEXT])
    [foreign] = await data_converter(encryption=new_key("elsewhere")).encode([TEXT])
    changed.data = changed.data[:-1] + bytes([changed.data[-1] ^ 1])
    async with asking() as http:
        [first, *others] = payloads_in(await ask(http, "/decode", good, changed, foreign))
    assert json.loads(first.data) == TEXT
    assert others == [changed, foreign]
    assert "its key 'elsewhere' is not here" in caplog.text


async def test_what_is_stored_elsewhere(tmp_path: Path) -> None:
    converter = data_converter(storage=tmp_path.as_uri(), encryption=KEY)
    value = os.urandom(300_000)
    [reference] = await converter.encode([value])
    async with asking(converter=converter) as http:
        assert payloads_in(await ask(http, "/decode?preserveStorageRefs=true", reference)) == [
            reference
        ]
        for path in ("/decode", "/download?preserveStorageRefs=true"):
            assert [payload.data for payload in payloads_in(await ask(http, path, reference))] == [
                value
            ]
        [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
        file.unlink()
        lost = await ask(http, "/download", reference)
        assert (lost.status_code, "is gone" in lost.json()["message"]) == (422, True)


async def test_the_pages_of_the_ui_may_ask_and_no_others() -> None:
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-namespace",
    }
    async with asking() as http:
        allowed = await http.options("/decode", headers={"Origin": UI, **asked})
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, UI)
        other = await http.options("/decode", headers={"Origin": "http://evil.example", **asked})
        assert (other.status_code, "access-control-allow-origin" in other.headers) == (400, False)
        answered = await ask(http, "/decode", Origin=UI)
        assert answered.headers["access-control-allow-origin"] == UI


async def test_who_is_let_in() -> None:
    async with asking(hosts=("127.0.0.1",), token="right") as http:
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Authorization": "Bearer right"}, 200),
            ({"Authorization": "Bearer right", "Host": "evil.example"}, 400),
        ):
            answered = await ask(http, "/decode", **headers)
            assert answered.status_code == status
        assert answered.json() == {"message": "the host is 'evil.example': expected 127.0.0.1"}


NO_REQUESTS = [
    ("/decode", b"no JSON", "application/json", 400),
    ("/decode", b'{"payloads": 1}', "application/json", 400),
    ("/decode", b"{}", "text/plain", 415),
    ("/decode", b" " * (MAX_BODY_BYTES + 1), "application/json", 413),
    ("/decode", b'{"payloads": [' + b"{}," * MAX_OBJECTS + b"{}]}", "application/json", 413),
    ("/elsewhere", b"{}", "application/json", 404),
]


async def test_what_is_no_request() -> None:
    async with asking() as http:
        for path, content, kind, status in NO_REQUESTS:
            headers = {**NAMESPACE, "Content-Type": kind}
            answer = await http.post(path, content=content, headers=headers)
            assert answer.status_code == status, (path, content[:50])


async def test_temporals_command_line_shows_an_encrypted_run(
    stage: Stage, scripted: Scripted
) -> None:
    sealed = Stage(with_key(stage.client, KEY), stage.task_queue)
    async with sealed.worker():
        run = await sealed.start(scripted_agent(scripted([says(TEXT)])))
        await run.result()
    async with asking(token="right") as http:
        command = ("workflow", "result", "-w", run.id)
        plain = await temporal(stage, *command)
        codec = ("--codec-endpoint", str(http.base_url), "--codec-auth", "Bearer right")
        shown = await temporal(stage, *command, *codec)
    assert TEXT not in plain
    assert TEXT in shown


async def temporal(stage: Stage, *arguments: str) -> str:
    binary, address = find_binary(), stage.client.service_client.config.target_host
    process = await asyncio.create_subprocess_exec(
        str(binary),
        *arguments,
        "--address",
        address,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    return stdout.decode()
