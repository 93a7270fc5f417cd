"""A session, as its callers see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from perdure import ConfigurationError, RunNotFound, SessionError
from perdure.client import RunEvent, RunHandle, Session, connect, get_run, start_run
from perdure.client import session as make_session
from perdure.client.sessions.reading import recorded_status
from perdure.declared_tools import ToolPolicy
from perdure.history.events import decode
from perdure.messages import Message, Usage
from perdure.protocol.session import SessionInput, SessionStatus
from perdure.testing import ScriptedModel
from perdure.worker import create_worker
from tests.support.waiting import wait_for

from .conftest import HOLD, REFUSED, Talk


class Spoken(BaseModel):
    text: str


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


async def answers(session: Session, *said: str) -> list[object]:
    """What one turn after the other answers."""
    return [(await (await session.send(each)).result()).output for each in said]


async def test_turns_go_on_from_one_another(talk: Talk) -> None:
    session = talk.session()
    assert await answers(session, "one", "two") == ["You said one.", "You said two."]
    whole = ["Repeat it.", "one", "You said one.", "two", "You said two."]
    assert texts(await session.messages()) == whole
    runs = await talk.session(session.id, agent=None).runs()
    assert [run.id for run in runs] == [f"{session.id}/1", f"{session.id}/2"]
    assert texts(await runs[1].messages()) == texts((await runs[1].result()).messages) == whole
    assert texts(await runs[0].messages()) == whole[:3]
    status = await session.status()
    assert (status.status, status.reason, status.turn, status.queued) == (
        "waiting",
        "message",
        2,
        0,
    )
    used = [(await run.result()).usage for run in runs]
    assert status.usage == used[0] + used[1] != Usage()
    assert (await recorded(session)).turn == 2


async def test_a_message_that_is_sent_again_counts_once(talk: Talk) -> None:
    session = talk.session()
    sent = await asyncio.gather(
        *(talk.session(session.id).send("one", message_id="m-1") for _ in range(3))
    )
    assert {run.id for run in sent} == {f"{session.id}/1"}
    await sent[0].result()
    await session.send("two", message_id="m-2")
    assert (await session.send("one", message_id="m-1")).id == f"{session.id}/1"
    assert (await session.status()).turn == 2


async def test_another_text_under_the_same_id_is_refused(talk: Talk) -> None:
    session = talk.session()
    said = (
        talk.session(session.id).send(f"text {number}", message_id="m-1") for number in range(3)
    )
    results = await asyncio.gather(*said, return_exceptions=True)
    [run] = [each for each in results if isinstance(each, RunHandle)]
    assert [each.kind for each in results if isinstance(each, SessionError)] == [
        "refused",
        "refused",
    ]
    await run.result()
    assert len(await session.messages()) == 3


async def test_a_message_that_was_refused_is_taken_another_time(talk: Talk) -> None:
    """Of messages that wait for a worker together, the others find the session busy only when they
    are handled.
    """
    queue = f"test-{uuid4()}"
    id = f"talk-{queue}"

    async def send(number: int) -> RunHandle:
        known = make_session(talk.client, talk.agent, id, task_queue=queue)
        return await known.send(f"text {number}", while_busy="reject", message_id=f"m-{number}")

    async def say(number: int) -> object:
        return (await (await send(number)).result()).output

    together = [asyncio.create_task(send(number)) for number in range(2)]
    handle = talk.client.get_workflow_handle(id)
    await wait_for(lambda: exists(handle))
    with talk.gate() as gate:
        gate.open.set()
        async with create_worker(talk.client, task_queue=queue, tools={"hold": talk.hold}):
            for run in await asyncio.gather(*together, return_exceptions=True):
                if isinstance(run, RunHandle):
                    await run.result()
            assert [await say(number) for number in range(2)] == [
                "You said text 0.",
                "You said text 1.",
            ]


async def exists(handle: WorkflowHandle[Any, Any]) -> bool:
    try:
        await handle.describe()
    except RPCError:
        return False
    return True


async def test_while_a_run_is_under_way(talk: Talk) -> None:
    session, message_id = talk.session(while_busy="queue"), "m-1"
    with talk.gate() as gate:
        first = await session.send(HOLD)
        await gate.reached.wait()
        queued = await session.send("queued", by="somebody", message_id=message_id)
        steered = await session.send("steering", while_busy="steer")
        with pytest.raises(SessionError) as refused:
            await session.send("not now", while_busy="reject")
        assert (queued.id, steered.id, refused.value.kind) == (f"{session.id}/2", first.id, "busy")
        status = await session.status()
        assert (status.status, status.run_id, status.queued) == ("running", first.id, 1)
        alone = await recorded(session)
        assert (alone.status, alone.run_id, alone.first_run_id) == (
            "running",
            first.id,
            status.first_run_id,
        )
        assert texts(await session.messages())[:2] == ["Repeat it.", HOLD]
        waiting = asyncio.create_task(queued.result())
        events = asyncio.create_task(_events_of(queued))
    assert (await steered.result()).output == "You said steering."
    assert (await waiting).output == "You said queued."
    assert (await events)[-1].type == "done"
    again = await session.send("queued", message_id=message_id, while_busy="queue")
    assert (await again.result()).output == "You said queued."
    assert texts(await session.messages())[-4:] == [
        "steering",
        "You said steering.",
        "queued",
        "You said queued.",
    ]


async def recorded(session: Session) -> SessionStatus:
    """Where the session stands, without any worker."""
    link = [link async for link in session._reader.links()][-1]
    return recorded_status(link)


async def _events_of(run: object) -> list[RunEvent]:
    return [event async for event in run.stream()]  # type: ignore[attr-defined]


async def test_a_session_s_id_is_that_of_no_run(talk: Talk) -> None:
    session = talk.session()
    await (await session.send("one")).result()
    run = get_run(talk.client, session.id)
    calls: tuple[Callable[[], Awaitable[Any]], ...] = (
        run.status,
        run.result,
        run.messages,
        run.events,
        run.cancel,
        run.trace,
        lambda: run.steer("no"),
        lambda: run.approve("c"),
        lambda: run.fork(1),
        lambda: run.tool_result("c"),
    )
    for ask in calls:
        with pytest.raises(
            RunNotFound, match=f"'{session.id}' is the id of a session, not of a run"
        ):
            await ask()
    assert (await session.status()).status == "waiting"


async def test_what_the_agent_s_file_says_of_its_sessions(talk: Talk) -> None:
    """It counts where neither the message nor `session` says otherwise."""
    said = {"perdure": {"session": {"whileBusy": "reject", "idleTimeout": 0.5}}}
    agent = talk.agent.model_copy(update={"metadata": said})
    first = talk.session(agent=agent)
    with talk.gate() as gate:
        await first.send(HOLD)
        await gate.reached.wait()
        with pytest.raises(SessionError) as refused:
            await first.send("not now")
        assert refused.value.kind == "busy"
        steered = await talk.session(first.id, agent, while_busy="steer").send("now")
    assert (await steered.result()).output == "You said now."
    await wait_for(lambda: _is(first, "ended"))
    patient = talk.session(agent=agent, idle_timeout=3600)
    assert await answers(patient, "one") == ["You said one."]
    history = await talk.client.get_workflow_handle(patient.id).fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes
    assert (await decode(talk.client, started.input.payloads, SessionInput)).idle_timeout == 3600


async def test_what_is_queued_when_the_session_is_cancelled(talk: Talk) -> None:
    session = talk.session()
    with talk.gate() as gate:
        await session.send(HOLD)
        await gate.reached.wait()
        queued = await session.send("never", while_busy="queue")
        await session.cancel("enough")
    with pytest.raises(SessionError, match=f"ended before its run '{queued.id}' began") as ended:
        await queued.result()
    assert ended.value.kind == "ended"
    await wait_for(lambda: _is(session, "ended"))


async def _is(session: Session, status: str, reason: str = "") -> bool:
    stands = await session.status()
    return stands.status == status and reason in ("", stands.reason)


async def test_a_session_that_has_closed_begins_anew(talk: Talk) -> None:
    session = talk.session()
    with talk.gate() as gate:
        run = await session.send(HOLD)
        await gate.reached.wait()
        await session.close()
        with pytest.raises(SessionError) as refused:
            await session.send("too late")
        assert refused.value.kind == "closing"
    await run.result()
    await wait_for(lambda: _is(session, "ended"))
    await session.close()
    again = await session.send("again")
    assert again.id == run.id
    assert texts((await again.result()).messages) == ["Repeat it.", "again", "You said again."]
    assert texts(await run.messages())[1] == HOLD


async def test_an_edited_file_counts_from_the_next_turn_on(
    talk: Talk, model: ScriptedModel, tmp_path: Path
) -> None:
    file = tmp_path / "agent.prompty"

    def write(instructions: str) -> None:
        file.write_text(
            "---\nname: edited\nmodel:\n  id: m\n  provider: openai\n  connection: {kind: key, "
            "apiKey: x, endpoint: "
            f"{model.openai_endpoint}}}\ninputs:\n  - {{name: question, kind: string, required: "
            f"true}}\n"
            f"metadata:\n  perdure: {{session: {{whileBusy: "
            f"reject}}}}\n---\nsystem:\n{instructions}\n\nuser:\n"
            "{{question}}\n".replace("apiKey: x, ", "")
        )

    write("Be short.")
    session = talk.session(agent=file)
    await answers(session, "one")
    write("Be long.")
    assert await answers(session, "two") == ["You said two."]
    assert texts(await session.messages()) == [
        "Be long.",
        "one",
        "You said one.",
        "two",
        "You said two.",
    ]


async def test_a_stream_tells_each_turn_only_what_is_new(talk: Talk) -> None:
    session = talk.session()
    await answers(session, *(f"{number} " + "x" * 500 for number in range(6)))
    await session.close()
    seen = [event async for event in session.stream()]
    turns = [
        [event for event in seen if event.run_id == f"{session.id}/{number}"]
        for number in range(1, 7)
    ]
    sizes = [sum(len(event.model_dump_json()) for event in turn) for turn in turns]
    assert max(sizes[1:]) < min(sizes[1:]) + 100
    assert not any("messages" in event.data for event in seen)
    told = [each for event in seen for each in event.data.get("operations", ())]
    assert {each["op"] for each in told} == {"append"}
    whole = [Message.model_validate(message) for each in told for message in each["messages"]]
    assert whole == await session.messages()
    after = [each async for each in session.stream(seen[len(seen) // 2].position)]
    assert [event.position for event in after] == [
        event.position for event in seen[len(seen) // 2 + 1 :]
    ]
    with pytest.raises(ValueError, match="is not a position in a session"):
        await anext(session.stream("12"))
    first, *_ = [each for event in after for each in event.data.get("operations", ())]
    assert first["op"] == "rewrite", "a reader that comes back gets the conversation once more"


async def test_a_session_gives_typed_answers(talk: Talk) -> None:
    session = talk.session(output_type=Spoken)
    run = await session.send('{"text": "hello"}')
    assert (await run.result()).output == Spoken(text="hello")
    reader = talk.session(session.id, agent=None, output_type=Spoken)
    assert (await (await reader.send('{"text": "again"}')).result()).output == Spoken(text="again")
    assert [(await each.result()).output.text for each in await reader.runs()] == ["hello", "again"]
    with pytest.raises(ConfigurationError, match="output_type=dict"):
        await talk.session(output_type=dict).send("one")


async def test_while_a_person_is_awaited_the_session_waits_and_says_for_what(talk: Talk) -> None:
    [hold] = talk.agent.tools or []
    asking = hold.model_copy(update={"perdure": ToolPolicy(approval="always")})
    session = talk.session(agent=talk.agent.model_copy(update={"tools": [asking]}))
    run = await session.send(HOLD)
    with talk.gate() as gate:
        gate.open.set()
        await wait_for(lambda: _is(session, "waiting", "approval"))
        status = await session.status()
        [pending] = status.pending_approvals
        assert (pending.name, pending.run_id, status.run_id) == ("hold", run.id, run.id)
        await get_run(talk.client, run.id).approve(pending.call_id, digest=pending.digest)
        await run.result()
    await wait_for(lambda: _is(session, "waiting", "message"))
    assert (await session.status()).pending_approvals == []


async def test_before_its_first_message_a_session_is_new(talk: Talk) -> None:
    """It has nothing to read, and whoever follows it waits until it begins."""
    session = talk.session()
    assert ((await session.status()).status, await session.messages(), await session.runs()) == (
        "new",
        [],
        [],
    )
    async with aclosing(session.stream()) as stream:  # type: ignore[type-var]
        first = asyncio.ensure_future(anext(stream))
        await asyncio.wait([first], timeout=0.1)
        run = await session.send("one")
        assert (await first).run_id == run.id
    await run.result()
    await session.close()
    await wait_for(lambda: _is(session, "ended", "closed"))


async def test_a_session_whose_run_is_held_has_the_reasons(talk: Talk) -> None:
    session = talk.session()
    run = await session.send(REFUSED)
    await wait_for(lambda: _is(session, "held", "credentials"))
    status = await session.status()
    assert [(each.run_id, each.reason) for each in status.held] == [(run.id, "credentials")]
    await session.cancel()
    await wait_for(lambda: _is(session, "ended", "cancelled"))


async def test_ids_that_are_no_session(talk: Talk) -> None:
    run = await start_run(
        talk.client, talk.agent, task_queue=talk.task_queue, messages=[Message.user("one")]
    )
    with pytest.raises(SessionError, match=r"that is the id of another workflow, not of a session"):
        await talk.session(run.id).send("one")
    with pytest.raises(RunNotFound, match="not of a session"):
        await talk.session(run.id).messages()
    nobody = talk.session(agent=None)
    for ask in (lambda: nobody.send("one"), nobody.close, nobody.cancel):
        with pytest.raises(RunNotFound, match=f"no (open )?session '{nobody.id}'"):
            await ask()


async def test_a_message_that_no_worker_has_taken_counts_once(talk: Talk, address: str) -> None:
    lonely = Talk(talk.client, talk.agent, f"{talk.task_queue}-lonely")
    session = lonely.session(patience=0.5)
    with pytest.raises(
        SessionError, match=f"no worker of the task queue '{lonely.task_queue}' has answered"
    ) as error:
        await session.send("one", message_id="m-1")
    assert (error.value.kind, error.value.message_id) == ("unconfirmed", "m-1")
    async with create_worker(
        await connect(address), task_queue=lonely.task_queue, tools={"hold": lonely.hold}
    ):
        run = await lonely.session(session.id).send("one", message_id="m-1")
        assert (await run.result()).output == "You said one."
        status = await session.status()
        assert (run.id, status.turn, status.queued) == (f"{session.id}/1", 1, 0)


async def test_what_is_no_message_begins_no_session(talk: Talk) -> None:
    session = talk.session()
    for text, kind in ((" ", "empty"), ("x" * 1024 * 1025, "too_large")):
        with pytest.raises(SessionError) as refused:
            await session.send(text)
        assert refused.value.kind == kind
    with pytest.raises(ValueError, match="message_id ''"):
        await session.send("one", message_id="")
    with pytest.raises(ValueError, match="while_busy='que': expected 'steer', 'queue', 'reject'"):
        await session.send("one", while_busy="que")  # type: ignore[arg-type]
    assert (await session.status()).status == "new"


async def test_sessions_are_found_by_their_attributes(talk: Talk) -> None:
    session = talk.session(tenant="acme", priority=2, user="anna")
    run = await session.send("one")
    for id, status in ((session.id, "session"), (run.id, None)):
        described = await talk.client.get_workflow_handle(id).describe()
        found = {pair.key.name: pair.value for pair in described.typed_search_attributes}
        assert (found["PerdureSession"], found["PerdureTenant"]) == (session.id, "acme")
        assert status in (None, found["PerdureStatus"])
    assert (await (await talk.client.get_workflow_handle(session.id).describe()).memo())[
        "user"
    ] == "anna"
    await get_run(talk.client, run.id).result()
