"""`perdure chat`: a conversation on a terminal and in a pipe."""

from __future__ import annotations

import asyncio
import json
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.cli.chat.turns import last_part
from perdure.client import session
from perdure.messages import Message
from tests.support.command_line import AGENT, Cli, Finished
from tests.support.tmux import Pane, Tmux
from tests.support.waiting import wait_for

TALKER = ("talker.prompty", "--tools", "talking.py", "--scripted", "talking.py:script")


@pytest.fixture
def id() -> str:
    return f"talk-{uuid.uuid4().hex[:8]}"


async def chat(tmux: Tmux, *arguments: str, columns: int = 110) -> Pane:
    return await tmux.perdure("chat", *arguments, folder=AGENT, columns=columns)


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
    assert finished.stderr.endswith(f"Continue the session: perdure chat --session {id}\n")
    said = await session(client, None, id).messages()
    assert [message.text for message in said if message.role == "user"] == ["one", "fail", "two"]


async def test_code_that_can_t_be_used_is_refused_before_anything_begins(
    cli: Cli, client: Client, id: str
) -> None:
    finished = await piped(
        cli, "one", *TALKER, "--session", id, "--credentials", "talking.py:__doc__"
    )
    assert (finished.code, finished.stdout) == (2, "")
    assert (
        "__doc__ is str, expected a mapping from ids to secrets, or a function" in finished.stderr
    )
    assert (await session(client, None, id).status()).status == "new"


async def test_a_conversation_outlives_its_terminal(
    tmux: Tmux, client: Client, id: str, tmp_path: Path
) -> None:
    notes, there = tmp_path / "notes", tmp_path / "there"
    pane = await chat(tmux, *TALKER, "--session", id)
    await pane.shows(rf"continue it at any time: perdure chat --session {id} .*\n>")
    pane.type("hello")
    await pane.shows(rf"\nHeard: hello\.\n[^§]* {id}/1: 1 model call")
    pane.type(f"note {notes}; wait {there}")
    await pane.shows(r"[.0-9]+ s wait\(")
    pane.kill()
    back = await chat(tmux, "--session", id)
    await back.shows(
        rf"Session {id}: .*, worker in this process, 1 message so far\n> hello\nHeard: hello\.\n> "
        r"note "
    )
    await back.shows(r"→ noted")
    back.type("hurry")
    await back.shows(r"> hurry\n +sent; the agent reads it before its next model call")
    back.press("C-c")
    await back.shows("Ctrl-C again, or Ctrl-D, leaves")
    there.touch()
    await back.shows(rf"\nHeard: hello, note, hurry\.\n[^§]* {id}/2: 3 model calls")
    back.press("C-d")
    await back.ends()
    assert f"Session {id} stays. Continue it: perdure chat --session {id}" in back.text
    assert notes.read_text() == "noted\n", "what was finished is not repeated"
    said = await session(client, None, id).messages()
    assert [message.role for message in said].count("user") == 3


@pytest.mark.trial
async def test_more_is_said_and_the_session_closed_by_its_name(cli: Cli, id: str) -> None:
    await piped(cli, "one", *TALKER, "--session", id)
    more = await cli("chat", "--session", id, "-m", "two", "--close", "--json", "-q")
    assert json.loads(more.stdout)["output"] == "Heard: one, two."
    again = await cli("chat", "--session", id, "--close")
    assert (again.code, again.stderr.endswith(f"Session {id} is closed already.\n")) == (0, True)
    late = await cli("chat", "--session", id, "-m", "three")
    assert (late.code, f"session {id} is closed: name the agent" in late.stderr) == (1, True)
    unknown = await cli("chat", "--session", f"{id}-none", "-m", "three")
    assert (unknown.code, f"there is no session '{id}-none': name the agent" in unknown.stderr) == (
        1,
        True,
    )
    nothing = await cli("chat", "--session", f"{id}-none", "--close")
    assert (nothing.code, f"there is no session '{id}-none': `perdure ls" in nothing.stderr) == (
        1,
        True,
    )
    run = await cli("chat", "--session", f"{id}/1", "-m", "three")
    assert (run.code, f"'{id}/1' is the id of a run, expected that of a session" in run.stderr) == (
        1,
        True,
    )
    anew = await piped(cli, "anew", *TALKER, "--session", id)
    assert anew.stdout == "Heard: anew.\n", anew.stderr

    async def each_has_its_own() -> bool:
        rows = json.loads(
            (await cli("ls", "--sessions", "--where", f"WorkflowId = '{id}'", "--json")).stdout
        )
        return [(row["status"], row["turns"]) for row in rows] == [("waiting", 1), ("ended", None)]

    await wait_for(each_has_its_own)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path fits into a line of the terminal, as `tmp_path` of a process among
    several does not.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.trial
async def test_two_terminals_in_one_session(tmux: Tmux, id: str, short_path: Path) -> None:
    first = await chat(tmux, *TALKER, "--session", id)
    await first.shows(r"continue it at any time.*\n>")
    first.type(f"wait {short_path / 'there'}")
    await first.shows(r"[.0-9]+ s wait\(")
    second = await chat(tmux, "--session", id)
    await second.shows(r"> wait [^§]*[.0-9]+ s wait\(")
    second.type("hurry")
    await second.shows("sent; the agent reads it before its next model call")
    (short_path / "there").touch()
    for pane in (first, second):
        await pane.shows(rf"Heard: wait, hurry\.\n[^§]* {id}/1: 2 model calls")
    assert "> hurry\n" in first.text, "what is said elsewhere is shown"
    second.type("/close")
    await second.ends()
    assert f"Session {id} is closed." in second.text
    await first.shows(f"Session {id} is closed. The next message begins a new one")
    first.type("again")
    await first.shows(r"> again\nHeard: again\.")
    first.press("C-d")
    await first.ends()


@pytest.mark.trial
async def test_what_waits_for_a_person_is_asked_where_one_types(tmux: Tmux, id: str) -> None:
    pane = await chat(
        tmux,
        "pay.prompty",
        "--tools",
        "paying.py",
        "--scripted",
        "paying.py:script",
        "--session",
        id,
    )
    await pane.shows(r"continue it at any time.*\n>")
    pane.type("pay")
    await pane.shows(r"pay\(\{\"amount\": 7\}\) waits for approval\n +y = yes, n REASON = no")
    pane.press("C-c")
    await pane.shows("Ctrl-C again, or Ctrl-D, leaves")
    pane.type("y")
    await pane.shows(rf"pay approved by [^§]*→ paid 7.*[^§]*\npaid 7\n +{id}/1")
    pane.type("/cancel")
    await pane.shows("no run is open; /quit leaves")
    pane.type("/nope")
    await pane.shows("there is no command /nope; /help lists them")
    pane.type("/quit")
    await pane.ends()


@pytest.mark.trial
async def test_a_session_without_a_worker_says_so(tmux: Tmux, id: str) -> None:
    pane = await chat(tmux, "talker.prompty", "--session", id, "--task-queue", f"none-{id}")
    await pane.shows(r"workers elsewhere\n.*\n>")
    pane.type("hello")
    await pane.shows("sending …")
    await pane.shows(rf"no worker .*none-{id}.*[^§]*sent again, it counts once")
    pane.type("and this")
    await pane.shows("sending …")
    pane.press("C-d")
    await pane.ends()
    for lost in ("hello", "and this"):
        assert f"This may not have arrived: {lost}\n" in pane.text


def test_who_comes_back_sees_the_last_exchange() -> None:
    said = [Message.user("a"), Message.assistant("1"), Message.user("b"), Message.assistant("2")]
    shown = last_part([Message.system("Be kind."), *said])
    assert [each.text for each in shown] == ["> b", "2"]
