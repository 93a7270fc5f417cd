"""`perdure connect`: what is printed, where the tokens are, and what a newcomer gets wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from ..support.command_line import Cli, Finished
from ..support.oauth_server import Authority, authority


@pytest.fixture
def both() -> Iterator[Authority]:
    with authority() as servers:
        yield servers


async def granted(cli: Cli, *arguments: str) -> tuple[Finished, str]:
    """As a person does who opens the printed address; gives what the browser shows at last."""
    started = await cli.start("connect", *arguments)
    url = (await started.says("/authorize?")).strip()
    async with httpx2.AsyncClient() as browser:
        back = (await browser.get(url)).headers["location"]
        stray = await browser.get(back.partition("/callback")[0])
        assert stray.status_code == 404, "something else that looks at the port"
        page = await browser.get(back)
    return await started.finish(), page.text


def declared(both: Authority, folder: Path, connection: str = "kind: oauth") -> Path:
    file = folder / "crm.prompty"
    tool = f"{{name: crm, kind: mcp, connection: {{{connection}, endpoint: '{both.mcp}'}}}}"
    file.write_text(f"---\nname: crm\nmodel: m\ntools: [{tool}]\n---\nuser:\nhi\n")
    return file


async def test_a_url(embedded: Cli, both: Authority) -> None:
    finished, page = await granted(embedded, both.mcp)
    assert (finished.code, page) == (0, "You may close this window.\n"), finished.stderr
    assert (
        f"{both.mcp}: connected. The token is in {embedded.environment['PERDURE_HOME']}/oauth/"
        in finished.stderr
    )
    assert not [
        token for token in ("access-", "refresh-") if token in finished.stdout + finished.stderr
    ]


async def test_a_file_whose_agent_then_runs(embedded: Cli, both: Authority, tmp_path: Path) -> None:
    file = declared(both, tmp_path)
    script = tmp_path / "script.json"
    script.write_text(
        '[{"tool_calls": [{"name": "echo", "arguments": {"text": "höre"}}]}, {"text": "done"}]'
    )
    run = ("run", str(file), "--scripted", str(script), "--yes")
    before = await embedded(*run)
    assert before.code != 0
    assert f"it is not connected: type perdure connect {both.mcp}" in before.stderr
    assert (await granted(embedded, str(file)))[0].code == 0
    after = await embedded(*run)
    assert (after.code, after.stdout) == (0, "done\n"), after.stderr
    assert "→ höre" in after.stderr
    assert "access-" not in after.stderr


async def test_a_person_who_says_no(embedded: Cli, both: Authority) -> None:
    both.denies = True
    finished, _ = await granted(embedded, both.mcp)
    assert finished.code == 1
    assert "access was not granted (access_denied: Ann said no)" in finished.stderr
    assert "Traceback" not in finished.stderr


async def test_what_else_goes_wrong(embedded: Cli, both: Authority, tmp_path: Path) -> None:
    """Each in a sentence, without a traceback."""
    robot = (
        "kind: oauth, authenticationMode: user, clientId: robot, clientSecret: '${env:ROBOT}', "
        "issuer: 'https://a'"
    )
    plain = tmp_path / "plain.prompty"
    plain.write_text("---\nname: a\nmodel: m\n---\nuser:\nhi\n")
    failures = {
        ("connect", both.mcp, "--timeout", "1"): (1, "access was not granted within 1 s"),
        ("connect", both.url + "/nothing"): (1, "answered HTTP 404 without a token, expected 401"),
        ("connect", "http://127.0.0.1:9/mcp"): (1, "can't be reached"),
        ("connect", str(plain)): (2, "has no tool that a person connects"),
        ("connect", str(declared(both, tmp_path, robot))): (2, "${env:ROBOT} is not known here"),
        ("connect", "nothing.prompty"): (2, "there is no file"),
        ("connect", "ftp://h/mcp"): (2, "expected a URL such as https://host/mcp"),
    }
    for arguments, (code, text) in failures.items():
        finished = await embedded(*arguments)
        assert text in finished.stderr, (arguments, finished.stderr)
        assert finished.code == code
        assert "Traceback" not in finished.stderr
    both.issuer_in_metadata = "https://wrong.example"
    wrong = await embedded("connect", both.mcp)
    assert "issuer mismatch" in wrong.stderr
    both.issuer_in_metadata, both.registers = "", False
    by_hand = await embedded("connect", both.mcp, "--port", "0")
    assert "give its id (--client-id) and the port (--port)" in by_hand.stderr
