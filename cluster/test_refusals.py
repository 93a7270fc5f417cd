"""What a person reads when the cluster of the profile `jwt` refuses something: real tokens, real
certificates. `python -m cluster up jwt`, then `python -m cluster test cluster/test_refusals.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass

import pytest

from cluster import client
from cluster.authority import Authority
from cluster.home import ROOT

AGENT = "examples/code_reader/code_reader.prompty"
CODE = ("--tools", "examples/code_reader/tools.py")
SCRIPT = ("--scripted", "examples/code_reader/scripted.py:scripted_reply")
INPUTS = ("--input", "question=Which?", "--input", "root=perdure/loop")
RUN = ("run", AGENT, *CODE, *SCRIPT, *INPUTS)
WORKER = ("worker", *CODE)
SECONDS = 60


@dataclass
class Ended:
    code: int | None
    stdout: str
    stderr: str


async def perdure(*arguments: str, token: str | None = "write", **changed: str | None) -> Ended:
    """A command with the environment of a client of the cluster, changed."""
    given = {**os.environ, **client.environment("jwt", token or "write")}
    changes = dict(changed) if token else {**changed, "TEMPORAL_API_KEY": None}
    for name, value in changes.items():
        if value is None:
            given.pop(name, None)
        else:
            given[name] = value
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", *arguments),
        cwd=ROOT,
        env=given,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await asyncio.wait_for(process.communicate(), SECONDS)
    return Ended(process.returncode, stdout.decode(), stderr.decode())


async def test_with_the_role_a_run_works() -> None:
    ended = await perdure(*RUN)
    assert (ended.code, bool(ended.stdout)) == (0, True), ended.stderr


async def test_a_reader_lists_and_may_not_start() -> None:
    assert (await perdure("ls", token="read")).code == 0
    ended = await perdure(*RUN, "--detach", token="read")
    assert ended.code in (1, 2)


@pytest.mark.parametrize("command", [WORKER, RUN], ids=["worker", "run"])
async def test_what_needs_the_role_says_so(command: tuple[str, ...]) -> None:
    ended = await perdure(*command, token="read")
    assert (ended.code, ended.stdout) == (1, "")
    assert "Request unauthorized" in ended.stderr
    assert "TEMPORAL_API_KEY" in ended.stderr


REFUSED: dict[str, tuple[dict[str, str | None], str, str]] = {
    "no token": ({"TEMPORAL_API_KEY": None}, "Request unauthorized", "TEMPORAL_API_KEY"),
    "a bad token": (
        {"TEMPORAL_API_KEY": "a.b.c"},
        "it refuses the credentials",
        "TEMPORAL_API_KEY",
    ),
    "another namespace": (
        {"TEMPORAL_NAMESPACE": "other"},
        "Request unauthorized",
        "TEMPORAL_NAMESPACE",
    ),
    "no TLS": (
        {
            **dict.fromkeys(Authority().client_environment()),
            "TEMPORAL_TLS": "false",
            "TEMPORAL_API_KEY": None,
        },
        "it may speak TLS only",
        "TEMPORAL_TLS=true",
    ),
    "another name": (
        {"TEMPORAL_TLS_SERVER_NAME": "elsewhere.test"},
        "its certificate is for another name",
        "TEMPORAL_TLS_SERVER_NAME",
    ),
    "another authority": (
        {"TEMPORAL_TLS_SERVER_CA_CERT_PATH": Authority().path("strangers-ca.pem")},
        "not trusted",
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    ),
    "a stranger's certificate": (
        {
            "TEMPORAL_TLS_CLIENT_CERT_PATH": Authority().path("stranger.pem"),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": Authority().path("stranger.key"),
        },
        "certificate",
        "TEMPORAL_TLS_CLIENT_CERT_PATH",
    ),
    "no certificate": (
        {"TEMPORAL_TLS_CLIENT_CERT_PATH": None, "TEMPORAL_TLS_CLIENT_KEY_PATH": None},
        "certificate",
        "TEMPORAL_TLS_CLIENT_CERT_PATH",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
async def test_a_mistake_is_a_sentence_with_a_remedy(mistake: str) -> None:
    changed, text, remedy = REFUSED[mistake]
    ended = await perdure("ls", **changed)
    assert (ended.code, ended.stdout) == (1, "")
    assert text in ended.stderr
    assert remedy in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_namespace_that_there_is_not() -> None:
    ended = await perdure("ls", token="admin", TEMPORAL_NAMESPACE="nowhere")
    assert ended.code == 1
    assert "the server has no namespace 'nowhere'" in ended.stderr
