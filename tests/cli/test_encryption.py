"""Commands on an encrypted run, with its key and without."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path

import httpx2 as httpx
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from temporalio.api.common.v1 import Payloads

from perdure.payloads.converter import data_converter
from perdure.payloads.encryption.keys import new_key

from ..support.command_line import Cli

AGES = (
    "ages.prompty",
    "--tools",
    "tools.py",
    "--scripted",
    "tools.py:script",
    "--input",
    "person=Ann",
)


async def test_who_lacks_the_key_is_told_which(cli: Cli, tmp_path: Path) -> None:
    id = f"sealed-{uuid.uuid4()}"
    keyed = Cli({**cli.environment, "PERDURE_ENCRYPTION_KEY": new_key("k1")})
    try:
        ran = await keyed("run", *AGES, "--id", id, "--quiet")
        assert (ran.code, ran.stdout) == (0, "Ann is 30.\n"), ran.stderr
    finally:
        await keyed.close()
    listed = await cli("ls", "--limit", "1000")
    [row] = [line for line in listed.stdout.splitlines() if line.startswith(id)]
    assert "completed, encrypted (key k1)" in row
    assert (
        "can't be read: encrypted (key k1): PERDURE_ENCRYPTION_KEY lacks it here" in listed.stderr
    )
    status = await cli("status", id, "--json")
    assert (status.code, status.stdout) == (1, "")
    assert "add k1:… to PERDURE_ENCRYPTION_KEY" in status.stderr
    assert (await cli("result", id)).code == 1
    (tmp_path / "run.jsonl").write_text("the export of yesterday")
    assert (await cli("export", id, "-o", str(tmp_path / "run.jsonl"))).code == 1
    assert [(file.name, file.read_text()) for file in tmp_path.glob("run*")] == [
        ("run.jsonl", "the export of yesterday")
    ], "an export that can't be completed leaves the one before it"


async def test_the_codec_server_decrypts_for_whom_its_token_lets_in(embedded: Cli) -> None:
    key = new_key("k1")
    embedded.environment |= {
        "PERDURE_ENCRYPTION_KEY": key,
        "PERDURE_CODEC_TOKEN": "a token of the test",
    }
    server = await embedded.start("codec-server", "--port", "0")
    endpoint = (await server.says("Codec server:")).partition("Codec server: ")[2].split()[0]
    [payload] = await data_converter(encryption=key).encode(["hello"])
    body = MessageToDict(Payloads(payloads=[payload]))
    async with httpx.AsyncClient(headers={"X-Namespace": "default"}) as http:
        assert (await http.post(f"{endpoint}/decode", json=body)).status_code == 401
        allowed = {"Authorization": "Bearer a token of the test"}
        shown = await http.post(f"{endpoint}/decode", json=body, headers=allowed)
    assert ParseDict(shown.json(), Payloads()).payloads[0].data == b'"hello"'
    assert (await server.finish(signal.SIGTERM)).code == 0
    del embedded.environment["PERDURE_CODEC_TOKEN"]
    refused = await embedded("codec-server", "--host", "0.0.0.0")
    assert refused.code == 2
    assert "everybody who reaches it could read every payload" in refused.stderr


@pytest.mark.trial
async def test_the_embedded_ui_shows_it_decrypted(embedded: Cli) -> None:
    key = new_key("k1")
    embedded.environment["PERDURE_ENCRYPTION_KEY"] = key
    server = await embedded.start("server")
    ui = (await server.says("Temporal UI:")).split()[-1]
    endpoint = (await server.says("codec server:")).split()[2]
    [payload] = await data_converter(encryption=key).encode(["hello"])
    async with httpx.AsyncClient() as http:
        settings = (await http.get(f"{ui}/api/v1/settings")).json()
        body = MessageToDict(Payloads(payloads=[payload]))
        shown = await http.post(
            f"{endpoint}/decode", json=body, headers={"Origin": ui, "X-Namespace": "default"}
        )
    assert settings["Codec"]["Endpoint"] == endpoint
    assert shown.headers["access-control-allow-origin"] == ui
    assert ParseDict(shown.json(), Payloads()).payloads[0].data == b'"hello"'
    assert (await server.finish(signal.SIGINT)).code in (0, 130)
