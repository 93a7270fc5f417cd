"""Runs whose model is told of its tools in the prompt, on a real server and over HTTP."""

from __future__ import annotations

from perdure.client import RunOptions, session
from perdure.providers.prompted.call import (
    FINAL,
)
from perdure.testing import ScriptedReply, ScriptedRequest, says

from ..support.agents import Scripted, scripted_agent
from ..support.prompted import ECHO, echo, is_final
from ..support.stage import Stage


async def test_the_turns_of_a_session(stage: Stage, scripted: Scripted) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        if is_final(request):
            return says("Done")
        return says("{}" if request.messages[-1].text.startswith("[Step") else ECHO)

    model = scripted(reply)
    async with stage.worker({"echo": echo}):
        options = RunOptions(tool_protocol="json")
        talk = session(
            stage.client,
            scripted_agent(model, ["echo"]),
            stage.task_queue,
            task_queue=stage.task_queue,
            options=options,
        )
        for text in ("One", "Two"):
            run = await talk.send(text)
            stage.runs.append(run)
            assert (await run.result()).output == "Done"
        await talk.close()
    result = '[Step 1/10] Tool result: "Echo: hello"'
    sent = [message.text for message in model.requests[-1].messages if message.role != "system"]
    assert sent == ["One", ECHO, result, "Done", "Two", ECHO, result, FINAL]
