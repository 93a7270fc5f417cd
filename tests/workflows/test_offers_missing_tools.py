"""A run whose worker lacks something is offered to the other workers of its queue, and says so
meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.cli.console import give_stdout_back
from perdure.cli.user_code import load_user_code
from perdure.client import RunHandle
from perdure.errors import RunCancelled, RunError, ToolNotRegisteredError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.protocol.inventory import Missing
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says
from perdure.tools import clear_tools, get_tool, tool

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.waiting import asked, wait_for


def ask_first(name: str) -> Callable[[ScriptedRequest], ScriptedReply]:
    def script(request: ScriptedRequest) -> ScriptedReply:
        told = any(message["role"] == "tool" for message in request.body["messages"])
        return says("done") if told else asks(call(name, text="x"))

    return script


def echo(text: str = "") -> str:
    return text


async def missing(run: RunHandle) -> Missing:
    async def what() -> Missing | None:
        return (await run.status()).missing

    return await wait_for(what)


async def test_workers_with_different_tools_share_a_queue(stage: Stage, scripted: Scripted) -> None:
    left, right = scripted(ask_first("left")), scripted(ask_first("right"))
    async with stage.worker({"left": echo}), stage.another_worker({"right": echo}):
        starts = [
            stage.start(scripted_agent(model, [name]))
            for model, name in [(left, "left"), (right, "right")] * 2
        ]
        runs = [await start for start in starts]
        results = await asyncio.gather(*(run.result() for run in runs))
    assert [result.output for result in results] == ["done"] * 4
    assert all(result.messages[-2].text == "x" for result in results)


async def test_a_run_says_what_it_waits_for_and_goes_on_where_it_is(
    stage: Stage, scripted: Scripted
) -> None:
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted(ask_first("find")), ["find"]))
        waits = await missing(run)
        assert (waits.what, waits.task_queue) == (["tool find (kind: function)"], stage.task_queue)
        async with stage.another_worker({"find": echo}):
            assert (await run.result()).output == "done"
    assert (await run.status()).missing is None
    said = [event.data["message"] for event in await run.events() if event.type == "status"]
    assert (
        f"Waiting for a worker of the task queue '{stage.task_queue}' that has tool find (kind: "
        "function)" in said
    )


async def test_after_the_grace_it_fails_and_says_what_is_missing(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([])
    async with stage.worker({"other": echo}):
        run = await stage.start(scripted_agent(model, ["find"]), missing_tool_grace=0.3)
        with pytest.raises(ToolNotRegisteredError) as caught:
            await run.result()
    text = str(caught.value)
    assert (
        "No handler registered for tool: find (kind: function). This worker's tools: other." in text
    )
    assert "tools=[find] of invoke_agent" in text
    assert stage.task_queue in text
    assert "0.3 s" in text
    assert (await run.events())[-1].data == {"kind": "tool_not_registered", "message": text}
    assert model.requests == []


async def test_a_run_that_waits_for_a_worker_can_be_cancelled(
    stage: Stage, scripted: Scripted
) -> None:
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted([]), ["find"]))
        await missing(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
    assert [event.type for event in await run.events()][-1] == "cancelled"


async def test_an_approved_call_is_executed_once_where_the_tool_is(
    stage: Stage, scripted: Scripted
) -> None:
    """In a rolling deploy, a call comes to a worker that does not have the tool, and must never be
    repeated.
    """
    executed: list[str] = []

    @tool(needs_approval=True, idempotent=False)
    def pay(text: str = "") -> str:
        executed.append(text)
        return "paid"

    clear_tools()  # A process has one registry, and here it stands for two.
    async with stage.worker([pay]):
        run = await stage.start(scripted_agent(scripted(ask_first("pay")), ["pay"]))

        await asked(run)
    async with stage.worker({"other": echo}):
        await run.approve("call_pay")
        assert (await missing(run)).what == ["tool pay"]
        async with stage.another_worker([pay]):
            result = await run.result()
    assert executed == ["x"]
    assert tool_texts(result.messages) == ["paid"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_guardrail_is_asked_where_it_is(
    stage: Stage, scripted: Scripted, is_async: bool
) -> None:
    judged: list[str] = []

    def judge(messages: object) -> GuardrailResult:
        judged.append("plain")
        return GuardrailResult(allowed=True)

    async def judge_slowly(messages: object) -> GuardrailResult:
        judged.append("async")
        return GuardrailResult(allowed=True)

    strict = {"strict": Guardrails(input=judge_slowly if is_async else judge)}

    @tool(needs_approval=True)
    def pay(text: str = "") -> str:
        return "paid"

    clear_tools()  # A process has one registry, and here it stands for two.
    async with stage.worker([pay], guardrails=strict):
        run = await stage.start(
            scripted_agent(scripted(ask_first("pay")), ["pay"]), guardrails="strict"
        )

        await asked(run)
    async with stage.worker([pay]):
        await run.approve("call_pay")
        assert (await missing(run)).what == ["guardrails 'strict'"]
        async with stage.another_worker([pay], guardrails=strict):
            assert (await run.result()).output == "done"
    assert judged == ["async" if is_async else "plain"] * 2


@pytest.mark.parametrize(
    ("missing", "named", "typed"),
    [
        (
            {"guardrails": "strict", "compactor": "short"},
            ["guardrails 'strict'", "compactor 'short'"],
            ["create_worker(guardrails={'strict': …})", "create_worker(compactors={'short': …})"],
        ),
        (
            {"guardrails": "lax", "compactor": "short"},
            ["compactor 'short'"],
            ["no compactor named 'short'"],
        ),
    ],
)
async def test_hooks_that_no_worker_has_fail_with_their_own_kind(
    stage: Stage, scripted: Scripted, missing: dict[str, str], named: list[str], typed: list[str]
) -> None:
    model = scripted([])
    async with stage.worker(
        guardrails={"lax": Guardrails()}, compactors={"long": lambda messages: "much"}
    ):
        run = await stage.start(scripted_agent(model), missing_tool_grace=0.2, **missing)
        with pytest.raises(RunError) as caught:
            await run.result()
    assert caught.value.kind == "configuration"
    assert all(text in str(caught.value) for text in typed), caught.value
    assert stage.task_queue in str(caught.value)
    said = [event.data["message"] for event in await run.events() if event.type == "status"]
    assert said == [
        f"Waiting for a worker of the task queue {stage.task_queue!r} that has {', '.join(named)}"
    ]
    assert model.requests == []


LONG = [
    Message.user("q"),
    *(message for _ in range(6) for message in (Message.user("x" * 400), Message.assistant("y"))),
]


async def run_that_compacts_elsewhere(
    stage: Stage, scripted: Scripted, **options: float
) -> RunHandle:
    """A run whose first worker had the compactor, and is gone when the conversation is to be
    trimmed.
    """

    @tool(needs_approval=True)
    def pay(text: str = "") -> str:
        return "z" * 400

    clear_tools()  # A process has one registry, and here it stands for two.
    async with stage.worker([pay], compactors={"short": lambda messages: "the first worker's"}):
        run = await stage.start(
            scripted_agent(scripted(ask_first("pay")), ["pay"]),
            LONG,
            compactor="short",
            context_budget=3000,
            **options,
        )

        await asked(run)
    return run


def pay(text: str = "") -> str:
    return "z" * 400


async def test_a_compaction_waits_for_a_worker_that_has_the_compactor(
    stage: Stage, scripted: Scripted
) -> None:
    run = await run_that_compacts_elsewhere(stage, scripted)
    async with stage.worker({"pay": pay}):
        await run.approve("call_pay")
        assert (await missing(run)).what == ["compactor 'short'"]
        compactors = {"short": lambda messages: "the other worker's"}
        async with stage.another_worker({"pay": pay}, compactors=compactors):
            result = await run.result()
    assert any("the other worker's" in message.text for message in result.messages)


async def test_after_the_grace_the_built_in_summary_replaces_the_compactors(
    stage: Stage, scripted: Scripted
) -> None:
    run = await run_that_compacts_elsewhere(stage, scripted, missing_tool_grace=0.3)
    async with stage.worker({"pay": pay}):
        await run.approve("call_pay")
        assert (await run.result()).output == "done"
    failed = [
        event.data["message"] for event in await run.events() if event.type == "compaction_failed"
    ]
    assert len(failed) == 1
    assert "no compactor named 'short' on this worker" in failed[0]
    assert "0.3 s" in failed[0]


async def test_a_worker_that_names_its_tools_has_no_others(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    """`@tool` has registered both when the file was imported."""
    file = tmp_path / "both_tools.py"
    file.write_text(
        'from perdure import tool\n\n@tool\ndef one(text: str = ""): ...\n\n@tool\ndef other(text: '
        'str = ""): ...\n'
    )
    try:
        code = load_user_code({"--tools": [f"{file}:one"]})
        assert (list(code.tools), get_tool("other") is None) == (["one"], False)
        async with stage.worker(code.tools, registered_tools=not code.names_its_tools):
            run = await stage.start(scripted_agent(scripted([]), ["other"]), missing_tool_grace=0.0)
            with pytest.raises(ToolNotRegisteredError, match="This worker's tools: one"):
                await run.result()
            run = await stage.start(scripted_agent(scripted([asks("one"), says("done")]), ["one"]))
            assert (await run.result()).output == "done"
    finally:
        clear_tools()
        give_stdout_back()
    assert not load_user_code({"--tools": [str(file)]}).names_its_tools
    give_stdout_back()
    clear_tools()
