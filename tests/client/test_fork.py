"""A fork begins with the conversation as it stood, repeats nothing, and knows where it comes
from.
"""

from __future__ import annotations

import pytest

from perdure.client import RunHandle, RunOptions, start_run
from perdure.client.fork import forks_of
from perdure.errors import MaxIterationsError, RunCancelled
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.protocol.search_attributes import ORIGIN, TENANT
from perdure.testing import asks, says

from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.unknown_outcomes import FIND_OUT
from ..support.waiting import wait_for


def echo(text: str = "") -> str:
    return f"echo of {text}"


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


async def forked(stage: Stage, run: RunHandle, at: int, **changes: object) -> RunHandle:
    fork = await run.fork(at, **changes)  # type: ignore[arg-type]
    stage.runs.append(fork)
    return fork


async def test_of_a_run_that_is_done(stage: Stage, scripted: Scripted) -> None:
    executed: list[str] = []

    def note(text: str = "") -> str:
        executed.append(text)
        return f"noted {text}"

    model = scripted([asks("note", text="one"), asks("note", text="two"), says("done")])
    async with stage.worker([note]):
        run = await stage.start(scripted_agent(model, ["note"]), max_iterations=3)
        original = await run.result()
        fork = await forked(stage, run, 2, steer="in French, please", options={"max_iterations": 5})
        result = await fork.result()
        assert texts(result.messages)[:5] == [
            "You are helpful.",
            "What is it?",
            "",
            "noted one",
            "in French, please",
        ]
        assert texts(model.requests[3].messages) == texts(result.messages)[:5]
        assert result.messages[:4] == original.messages[:4]
        assert executed == ["one", "two", "two"]
        assert (result.iterations, (await fork.status()).iteration) == (2, 2)
        origin = await fork.fork_of()
        assert origin is not None
        assert (origin.run, origin.at) == (run.id, 2)
        assert await run.fork_of() is None

        async def listed() -> list[str]:
            return [id async for id in forks_of(stage.client, run.id)]

        assert await wait_for(listed) == [fork.id]
        noted = original.messages[3].metadata["tool_call_id"]
        edited = await forked(stage, run, 2, results={noted: "noted 1"})
        assert texts((await edited.result()).messages)[3] == "noted 1"
        assert original.messages[3].text == "noted one"
        with pytest.raises(ValueError, match=f"call 'other' has 0 results.*: {noted}$"):
            await run.fork(2, results={"other": ""})
        with pytest.raises(ValueError, match="call '' has 0 results"):
            await run.fork(1, results={"": "no call's"})
        with pytest.raises(ValueError, match="expected an iteration from 1 to 4"):
            await run.fork(5)
        with pytest.raises(ValueError, match="max_iteration\n"):
            await run.fork(1, options={"max_iteration": 3})
        with pytest.raises(ValueError, match="has given its answer"):
            await run.fork(4)
        again = await forked(stage, fork, 1)
        assert (await again.result()).messages[:2] == QUESTION


async def test_what_it_takes_over(stage: Stage, scripted: Scripted) -> None:
    agent = scripted_agent(scripted([says("one"), says("two")]))
    memo = {"perdure": {"folder": "/somewhere", "tools": ["tools.py"]}, "customer": "c1"}
    inputs: JsonObject = {
        "task_queue": stage.task_queue,
        "messages": QUESTION,
        "tenant": "t1",
        "tenant_weight": 2.0,
        "priority": 2,
    }
    run = await start_run(
        stage.client, agent, memo=memo, options=RunOptions(max_llm_retries=2), **inputs
    )
    async with stage.worker():
        await run.result()
        fork = await forked(stage, run, 1, options={"max_iterations": 3}, id=f"{run.id}-b")
        again = await forked(stage, fork, 1)
        assert fork.id == f"{run.id}-b"
        await again.result()
    for each, origin in ((fork, run), (again, fork)):
        described = await stage.client.get_workflow_handle(each.id).describe()
        told = await described.memo()
        assert {name: told[name] for name in memo} == memo
        assert told["forkOf"]["run"] == origin.id
        assert described.typed_search_attributes.get(TENANT) == "t1"
        assert described.typed_search_attributes.get(ORIGIN) == origin.id
        priority = described.raw_description.workflow_execution_info.priority
        assert (priority.priority_key, priority.fairness_key, priority.fairness_weight) == (
            2,
            "t1",
            2.0,
        )
        [started] = [line async for line in each.export() if line["kind"] == "run"]
        assert started["options"]["max_llm_retries"] == 2
        assert started["options"]["max_iterations"] == 3
        assert started["forkOf"]["at"] == 1


async def test_steering_and_answers_that_did_not_fit(stage: Stage, scripted: Scripted) -> None:
    """What iteration 2 has read itself is not in a fork before it; the correction of iteration 1
    is.
    """
    model = scripted([says("no JSON"), says('{"age": 3}')])
    agent = scripted_agent(model, outputs=[{"name": "age", "kind": "integer", "required": True}])
    run = await stage.start(agent)
    await run.steer("be quick")
    async with stage.worker():
        await run.result()
        first, second = await forked(stage, run, 1), await forked(stage, run, 2)
        await second.result()
        await first.result()
    seeds = [texts(request.messages) for request in model.requests[2:]]
    assert ["You are helpful.", "What is it?"] in seeds
    [corrected] = [seed for seed in seeds if len(seed) == 5]
    assert corrected[2:4] == ["be quick", "no JSON"]
    assert corrected[4].startswith("Your answer does not fit")


async def test_of_open_cancelled_and_failed_runs(stage: Stage, scripted: Scripted) -> None:
    gate = Gate("waited")
    model = scripted([asks("echo", text="a"), asks("wait"), says("done")])
    async with stage.worker({"echo": echo, "wait": gate}):
        run = await stage.start(scripted_agent(model, ["echo", "wait"]), cancel_grace=0)
        await gate.reached.wait()
        with pytest.raises(
            ValueError, match="is at iteration 2; expected an iteration from 1 to 2"
        ):
            await run.fork(3)
        fork = await forked(stage, run, 2, model="another", options={"max_iterations": 1})
        await run.cancel()
        gate.open.set()
        with pytest.raises(MaxIterationsError):
            await fork.result()
        assert model.requests[-1].body["model"] == "another"
        with pytest.raises(RunCancelled):
            await run.result()
        of_cancelled = await forked(stage, run, 3)
        assert (await of_cancelled.result()).output == "done"
        assert texts(model.requests[-1].messages)[-1] in ("waited", f"[cancelled]{FIND_OUT}")
        of_failed = await forked(stage, fork, 2, options={"max_iterations": 4})
        assert (await of_failed.result()).output == "done"


async def test_another_agent(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks("echo", text="a"), says("done")])
    agent = scripted_agent(
        model, ["echo"], instructions="system:\nYou are helpful.\nuser:\n{{question}}"
    )
    inputs = [{"name": "question", "kind": "string"}]
    prompt = "system:\nYou are brief.\nuser:\nQ: {{question}}"
    changed = scripted_agent(model, ["echo"], instructions=prompt, inputs=inputs)
    async with stage.worker([echo]):
        run = await stage.start(agent)
        await run.result()
        fork = await forked(stage, run, 2, agent=changed)
        await fork.result()
        assert texts(model.requests[-1].messages)[:2] == ["You are brief.", "What is it?"]
