"""The model receives the right conversation whoever calls it: nothing rests on what a worker
remembers.
"""

from __future__ import annotations

from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest

from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.comparison import fingerprints, portable, run_in_process
from ..support.stage import Stage

MEMORYLESS = {"conversation_cache_bytes": 0, "max_cached_workflows": 2}
"""No conversation is ever at hand, and three runs displace each other from the cache of
decisions."""
ROUNDS = 8
KINDS: dict[str, JsonObject] = {
    "plain": {},
    "trimmed": {"context_budget": 12_000},
    "parallel": {"parallel_tool_calls": True},
}


def step(text: str = "") -> str:
    return f"step {text} done"


def reply(request: ScriptedRequest) -> ScriptedReply:
    """Asks for three tools of a kilobyte each until it has seen so many rounds."""
    last = request.messages[-1]
    number = int(last.text.split()[1]) + 1 if last.role == "tool" else 1
    calls = [call("step", f"call_{number}_{i}", text=f"{number} {i} " + "x" * 1000) for i in "abc"]
    return asks(*calls, text=f"Round {number}.") if number <= ROUNDS else says("done")


async def test_over_two_workers_that_forget(stage: Stage, scripted: Scripted) -> None:
    tools = {"step": step}
    async with stage.worker(tools, **MEMORYLESS), stage.another_worker(tools, **MEMORYLESS):
        models = {kind: scripted(reply) for kind in KINDS}
        runs = {
            kind: await stage.start(
                scripted_agent(model, ["step"]), max_iterations=ROUNDS + 1, **KINDS[kind]
            )
            for kind, model in models.items()
        }
        results = {kind: await run.result() for kind, run in runs.items()}
    for kind, result in results.items():
        twin = scripted(reply)
        agent, options = scripted_agent(twin, ["step"]), {"max_iterations": ROUNDS + 1}
        expected = await run_in_process(agent, tools, QUESTION, **options, **KINDS[kind])
        assert list(dict.fromkeys(fingerprints(models[kind]))) == fingerprints(twin), kind
        assert portable(result.messages) == portable(expected.messages), kind
