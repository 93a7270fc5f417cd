"""`perdure chat`: a conversation on a terminal and in a pipe."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.client import session

from .conftest import AGENT, Cli, Finished
from .tmux import Pane, Tmux, tmux_server

TALKER = ("talker.prompty", "--tools", "talking.py", "--scripted", "talking.py:script")


@pytest.fixture
def tmux(cli: Cli) -> Iterator[Tmux]:
    with tmux_server(cli.environment) as server:
        yield server


@pytest.fixture
def id() -> str:
    return f"talk-{uuid.uuid4().hex[:8]}"


def chat(tmux: Tmux, *arguments: str, columns: int = 110) -> Pane:
    return tmux.perdure("chat", *arguments, folder=AGENT, columns=columns)


async def piped(cli: Cli, text: str, *arguments: str) -> Finished:
    started = await cli.start("chat", *arguments, stdin=asyncio.subprocess.PIPE)
    assert started.process.stdin
    started.process.stdin.write(text.encode())
    started.process.stdin.close()
    return await started.finish()


async def test_in_a_pipe_the_answers_alone_are_on_stdout(cli: Cli, client: Client, id: str) -> None:
    finished = await piped(cli, "one\n\nfail\ntwo", *TALKER, "--session", id)
    assert finished.stdout == "Heard: one.\nHeard: one, fail, two.\n"
    assert finished.code == 1, "a turn has failed"
    assert f"Run {id}/2 ended without a result" in finished.stderr
    assert finished.stderr.endswith(f"Go on with the session: perdure chat --session {id}\n")
    said = await session(client, None, id).messages()
    assert [message.text for message in said if message.role == "user"] == ["one", "fail", "two"]


async def test_a_conversation_outlives_its_terminal(tmux: Tmux, client: Client, id: str, tmp_path: Path) -> None:
    notes, there = tmp_path / "notes", tmp_path / "there"
    pane = chat(tmux, *TALKER, "--session", id)
    await pane.shows(rf"go on with it at any time: perdure chat --session {id}")
    pane.type("hello")
    await pane.shows(rf"\nHeard: hello\.\n +{id}/1: 1 model call")
    pane.type(f"note {notes}; wait {there}")
    await pane.shows(r"[.0-9]+ s wait\(")
    pane.kill()
    back = chat(tmux, "--session", id)
    await back.shows(rf"Session {id}: .*, worker in this process, 1 message so far\n> hello\nHeard: hello\.\n> note ")
    await back.shows(r"✓ [.0-9]+ s +note\(")
    back.type("hurry")
    await back.shows(r"> hurry\n +sent; the agent reads it before its next model call")
    there.touch()
    await back.shows(rf"\nHeard: hello, note, hurry\.\n +{id}/2: 3 model calls")
    back.press("C-d")
    await back.ends()
    assert f"Session {id} stays. Go on with it: perdure chat --session {id}" in back.text
    assert notes.read_text() == "noted\n", "what was finished is not repeated"
    said = await session(client, None, id).messages()
    assert [message.role for message in said].count("user") == 3
