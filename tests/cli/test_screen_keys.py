"""What keys do while a question is asked."""

from __future__ import annotations

import asyncio

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from perdure.cli.screen import Screen


async def test_commands_and_ctrl_c_work_while_a_question_is_asked() -> None:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        screen = Screen([])
        screen.commands = ("/cancel", "/queue")
        reading = asyncio.create_task(screen.read())
        asked = asyncio.create_task(screen.ask(withdrawn=asyncio.Event()))
        await asyncio.sleep(0)  # The question is asked.
        keys.send_text("/cancel\r")
        keys.send_text("/queue and this\r")
        assert [await screen.lines.get(), await screen.lines.get()] == [
            "/cancel",
            "/queue and this",
        ]
        keys.send_text("half a li\x03")
        keys.send_text("/etc/hosts\r")
        assert await asyncio.wait_for(asked, 10) == "/etc/hosts", "the line before it was dropped"
        assert not screen.left.is_set()
        reading.cancel()
        await asyncio.wait([reading])
