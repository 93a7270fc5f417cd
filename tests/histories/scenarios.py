"""The runs whose histories are kept: one for each feature, as small as shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.agents import with_others
from perdure.client import RunHandle
from perdure.declared_tools import Property, Tool
from perdure.errors import RunError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.json_types import JsonObject, JsonView
from perdure.messages import Message
from perdure.providers.prompted.call import FINAL
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.testing.script import Script
from perdure.tools import Asking, KindCall, Offering, ToolKind, tool

from ..support.agents import scripted_agent
from ..support.foreign_tools import activity as foreign_activity
from ..support.foreign_tools import workflow as foreign_workflow
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.waiting import wait_for

Play = Callable[["Scene"], Awaitable[RunHandle]]
SCENARIOS: dict[str, Play] = {}
"""Name → the scenario."""
ALLOWED = GuardrailResult(allowed=True)
LONG = [Message.user(f"{number} " + "x" * 400) for number in range(8)]


def scenario(play: Play) -> Play:
    SCENARIOS[play.__name__] = play
    return play


class Scene:
    """A queue, and a gate at which tools and hooks can be held."""

    def __init__(self, client: Client, name: str) -> None:
        self.stage = Stage(client, name)
        self.gate = Gate()

    @asynccontextmanager
    async def running(
        self,
        script: Script,
        tools: Any = (),
        *,
        messages: Sequence[Message] | None = None,
        files: Sequence[JsonView] = (),
        worker: JsonView | None = None,
        **options: Any,
    ) -> AsyncIterator[RunHandle]:
        """A run on a worker with these tools and `HOOKS`; at the end, the run has ended.

        `files` are declarations of further tools, or of these in full; `worker` is for
        `create_worker`.
        """
        declared = [getattr(it, "__name__", "gate") for it in tools]
        named = {each["name"] for each in files}
        hooks = {
            "guardrails": self.guardrails(),
            "compactors": {"plain": lambda dropped: f"{len(dropped)} messages"},
        }
        with ScriptedModel(script) as model:
            agent = scripted_agent(
                model, [*(name for name in declared if name not in named), *files]
            )
            async with self.stage.worker(
                dict(zip(declared, tools, strict=True)), **hooks, **(worker or {})
            ):
                run = await self.stage.start(agent, messages, id=self.stage.task_queue, **options)
                yield run
                await end_of(run)

    def guardrails(self) -> dict[str, Guardrails]:
        async def deny_tool(name: str, arguments: JsonObject) -> GuardrailResult:
            return GuardrailResult(allowed=False, reason="not now")

        async def allow(message: Message) -> GuardrailResult:
            return ALLOWED

        return {
            "plain": Guardrails(
                input=lambda messages: ALLOWED,
                output=lambda message: GuardrailResult(allowed=True, rewrite=message.text.upper()),
                tool=lambda name, arguments: GuardrailResult(
                    allowed=True, rewrite={"text": "rewritten"}
                ),
            ),
            "async": Guardrails(output=allow, tool=deny_tool),
            "denying": Guardrails(
                input=lambda messages: GuardrailResult(allowed=False, reason="never")
            ),
        }


async def end_of(run: RunHandle) -> None:
    try:
        await asyncio.wait_for(run.result(), 30)
    except RunError:
        return  # a failed run is what some scenarios are about


def echo(text: str = "") -> str:
    return text


def broken(text: str = "") -> str:
    raise ValueError("as always")


@tool(needs_approval=True)
def risky(text: str = "") -> str:
    """Do something that a person must agree to."""
    return text


@tool(approval=lambda arguments: len(arguments["text"]) > 5)
def large(text: str = "") -> str:
    """Do something that a person must agree to where it is large."""
    return text


class Spoken(ToolKind):
    """Offers one function, which it has to ask for."""

    asks_others = True

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        return [
            Offering(
                "say", parameters={"type": "object", "properties": {"text": {"type": "string"}}}
            )
        ]

    async def execute(self, call: KindCall) -> str:
        return str(call.arguments["text"])


@activity.defn
async def shout(arguments: dict[str, str]) -> str:
    return arguments["text"].upper()


@workflow.defn(sandboxed=False)
class Relay:
    @workflow.run
    async def run(self, arguments: dict[str, str]) -> str:
        return arguments["text"]


def step(number: int, text: str = "x") -> ScriptedReply:
    return asks(call("echo", f"call_{number}", text=text))


@scenario
async def tools(scene: Scene) -> RunHandle:
    two = asks(
        call("echo", "call_1", text="a"), call("echo", "call_2", text="b"), text="Two at once."
    )
    async with scene.running([two, step(3), says("done")], [echo]) as run:
        return run


@scenario
async def parallel_tools(scene: Scene) -> RunHandle:
    three = asks(*(call("echo", f"call_{text}", text=text) for text in "abc"))
    async with scene.running([three, says("done")], [echo], parallel_tool_calls=True) as run:
        return run


@scenario
async def retries(scene: Scene) -> RunHandle:
    failures = [
        ScriptedReply(status=500),
        ScriptedReply(status=429, headers={"retry-after": "0.1"}),
        says("done"),
    ]
    async with scene.running([failures], retry_base_seconds=0.1) as run:
        return run


@scenario
async def plain_guardrails(scene: Scene) -> RunHandle:
    async with scene.running([step(1), says("done")], [echo], guardrails="plain") as run:
        return run


@scenario
async def async_guardrails(scene: Scene) -> RunHandle:
    async with scene.running([step(1), says("done")], [echo], guardrails="async") as run:
        return run


@scenario
async def steering(scene: Scene) -> RunHandle:
    async with scene.running(
        [asks("gate", "call_1"), says("first"), says("second")], [scene.gate]
    ) as run:
        await scene.gate.reached.wait()
        await run.steer("one")
        await run.steer("two")
        scene.gate.open.set()
        return run


@scenario
async def cancelled_in_a_tool(scene: Scene) -> RunHandle:
    two = asks(call("gate", "call_1"), call("echo", "call_2"))
    async with scene.running([two], [scene.gate, echo]) as run:
        await scene.gate.reached.wait()
        await run.cancel("enough")
        scene.gate.open.set()
        return run


@scenario
async def cancelled_in_a_model_call(scene: Scene) -> RunHandle:
    async with scene.running([says("too late", delay=30)]) as run:
        await wait_for(lambda: _has_event(run, "llm_start"))
        await run.cancel()
        return run


@scenario
async def compaction(scene: Scene) -> RunHandle:
    async with scene.running(
        [says("done")], messages=LONG, context_budget=1500, compactor="plain"
    ) as run:
        return run


@scenario
async def approval(scene: Scene) -> RunHandle:
    both = asks(call("risky", "call_1", text="a"), call("risky", "call_2", text="b"))
    async with scene.running([both, says("done")], [risky]) as run:
        await wait_for(lambda: _is_asked(run, "call_1"))
        await run.approve("call_1", arguments={"text": "changed"})
        await wait_for(lambda: _is_asked(run, "call_2"))
        await run.deny("call_2", "no")
        return run


@scenario
async def offered_functions(scene: Scene) -> RunHandle:
    """What the model is offered is asked in an activity, and recorded."""
    kinds = {"spoken": Spoken()}
    async with scene.running(
        [asks(call("say", text="a")), says("done")],
        files=[{"name": "speaker", "kind": "spoken"}],
        worker={"tool_kinds": kinds},
    ) as run:
        return run


@scenario
async def local_and_repeated(scene: Scene) -> RunHandle:
    files = [
        {"name": "echo", "perdure": {"local": True}},
        {"name": "broken", "perdure": {"retries": 1}},
    ]
    both = asks(call("echo", "call_1", text="a"), call("broken", "call_2"))
    async with scene.running([both, says("done")], [echo, broken], files=files) as run:
        return run


@scenario
async def of_others(scene: Scene) -> RunHandle:
    """An activity and a workflow of somebody else's worker."""
    queue = f"{scene.stage.task_queue}-abroad"
    files = [
        foreign_activity("shout", queue, "text:string!"),
        foreign_workflow("Relay", queue, "text:string!"),
    ]
    both = asks(call("shout", "call_1", text="a"), call("Relay", "call_2", text="b"))
    client = await Client.connect(scene.stage.client.service_client.config.target_host)
    async with (
        Worker(client, task_queue=queue, activities=[shout], workflows=[Relay]),
        scene.running([both, says("done")], files=files) as run,
    ):
        return run


@scenario
async def called_agent(scene: Scene) -> RunHandle:
    """The history of the run that calls; the called run's own is like any other."""

    def script(request: ScriptedRequest) -> ScriptedReply:
        if request.messages[0].text == "You read.":
            return says("page 3")
        return [asks(call("reader", "call_1", page=3)), says("done")][request.step]

    with ScriptedModel(script) as model:
        reader = scripted_agent(
            model, name="reader", instructions="system:\nYou read.\n\nuser:\n{{page}}\n"
        )
        reader.inputs = [Property(name="page", kind="integer", required=True)]
        chief = scripted_agent(
            model, [{"name": "reader", "kind": "prompty", "path": "reader.prompty"}]
        )
        chief = with_others(chief, {"reader.prompty": reader})
        async with scene.stage.worker():
            run = await scene.stage.start(chief, id=scene.stage.task_queue)
            await end_of(run)
            return run


@scenario
async def called_agents_within_a_limit(scene: Scene) -> RunHandle:
    """Of three that are called at once, the limit has room for two."""

    def script(request: ScriptedRequest) -> ScriptedReply:
        if request.messages[0].text == "You read.":
            return says("page 3", output_tokens=100)
        rounds = [
            asks(*(call("reader", f"call_{n}", page=n) for n in range(3)), output_tokens=100),
            says("done"),
        ]
        return rounds[request.step]

    with ScriptedModel(script) as model:
        reader = scripted_agent(
            model, name="reader", instructions="system:\nYou read.\n\nuser:\n{{page}}\n"
        )
        reader.inputs = [Property(name="page", kind="integer", required=True)]
        chief = scripted_agent(
            model, [{"name": "reader", "kind": "prompty", "path": "reader.prompty"}]
        )
        chief = with_others(chief, {"reader.prompty": reader})
        limits: JsonObject = {"max_cost_usd": 0.35, "parallel_tool_calls": True}
        async with scene.stage.worker(prices={"openai/*": {"input": 0.0, "output": 1000.0}}):
            run = await scene.stage.start(chief, id=scene.stage.task_queue, **limits)
            await end_of(run)
            return run


@scenario
async def large_results(scene: Scene) -> RunHandle:
    """More than one activity input can carry: parts of the conversation go ahead."""
    many = asks(*(call("echo", f"call_{number}", text="x" * 60_000) for number in range(14)))
    async with scene.running([many, says("done")], [echo], parallel_tool_calls=True) as run:
        return run


@scenario
async def continued_as_new_in_pieces(scene: Scene) -> RunHandle:
    """The conversation is larger than the next link's input."""
    steps = [step(number, "x" * 60_000) for number in range(16)]
    async with scene.running([*steps, says("done")], [echo], max_iterations=50) as run:
        return run


@scenario
async def paced(scene: Scene) -> RunHandle:
    async with scene.running(
        [step(1), says("done")], [echo], worker={"model_rate": {"openai": 100.0}}
    ) as run:
        return run


@scenario
async def prompted_tools(scene: Scene) -> RunHandle:
    """The provider refuses tools, so the model is told of them in the prompt, and calls them in its
    text.
    """

    def reply(request: ScriptedRequest) -> ScriptedReply:
        if request.body.get("tools"):
            return ScriptedReply(
                status=400, error={"error": {"message": "the model does not support tools"}}
            )
        if request.messages[-1].text == FINAL:
            return says("done")
        actions = [
            '{"tool": "echo", "arguments": {"text": "a"}}',
            '{"tool": "echo", "arguments": {"te',
            "{}",
        ]
        return says(actions[request.step])

    async with scene.running(reply, [echo], tool_protocol="auto", stream=True) as run:
        return run


async def _has_event(run: RunHandle, type: str) -> bool:
    return any(event.type == type for event in await run.events())


async def _is_asked(run: RunHandle, call_id: str) -> bool:
    return [pending.call_id for pending in (await run.status()).pending_approvals] == [call_id]
