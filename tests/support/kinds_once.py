"""Runs that call every kind of tool that acts, while their workers are killed; effects are counted
at the far ends.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.worker import Worker

from perdure import load
from perdure.client import RunHandle, start_run
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.protocol.outcome import RunResult
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest

from .a2a_agents import RemoteAgent
from .agents import QUESTION
from .effects_once import Crowd, Ledger, ledger
from .families import calls, takes, write_agent
from .foreign_tools import activity as foreign_activity
from .hosts import serving
from .mcp_server import make_server
from .mcp_stage import on_http

KINDS = ("function", "mcp", "openapi", "prompty", "activity", "a2a", "isolated")


@dataclass
class FarEnds:
    """What the tools act on, outside the workers that are killed."""

    folder: Path
    crowd: Crowd
    kept: Ledger
    office: RemoteAgent
    noted: Counter[str]
    """Text → how often the activity noted it."""
    declared: dict[str, dict[str, Any]]

    def effects(self, kind: str, ids: Sequence[str]) -> Counter[str]:
        """What was done, and how often."""
        match kind:
            case "function":
                return Counter(
                    f"{id}/{entry['call']}"
                    for id in ids
                    for entry in self.crowd.notes(id)
                    if entry["call"].startswith("function")
                )
            case "mcp":
                return Counter(self.notes.read_text().splitlines() if self.notes.exists() else [])
            case "openapi" | "prompty":
                return Counter(
                    {text: n for text, n in self.kept.added.items() if f"/{kind}-" in text}
                )
            case "activity":
                return self.noted
            case "isolated":
                return Counter(self.signed.read_text().splitlines() if self.signed.exists() else [])
        return Counter(self.office.executions)

    @property
    def notes(self) -> Path:
        return self.folder / "notes.txt"

    @property
    def signed(self) -> Path:
        return self.folder / "signed.txt"

    async def start(self, model: ScriptedModel, id: str, kinds: Sequence[str]) -> RunHandle:
        """A run of these tools."""
        (self.folder / id).mkdir()
        api = [self.declared["openapi"]]
        prompt = "system:\nNote it.\n\nuser:\n{{question}}"
        write_agent(
            self.folder / id,
            "inside.prompty",
            model,
            tools=api,
            inputs=takes("question"),
            prompt=prompt,
        )
        chief = write_agent(
            self.folder / id, "chief.prompty", model, tools=[self.declared[kind] for kind in kinds]
        )
        options = RunOptions(max_iterations=50, max_llm_retries=10, retry_base_seconds=0.1)
        return await start_run(
            self.crowd.client,
            load(chief),
            messages=list(QUESTION),
            task_queue=self.crowd.queue,
            id=id,
            options=options,
        )


@asynccontextmanager
async def far_ends(crowd: Crowd) -> AsyncIterator[FarEnds]:
    """All of them, for as long as the block runs."""
    noted, office, queue = Counter[str](), RemoteAgent(), f"{crowd.queue}-others"
    os.environ["NOTES"] = str(crowd.folder / "notes.txt")

    @activity.defn(name="note")
    async def note(arguments: str) -> str:
        noted[arguments] += 1
        await asyncio.sleep(0.1)
        return "noted"

    with ledger() as kept, serving(make_server().streamable_http_app()) as web:
        async with (
            office.served() as url,
            Worker(crowd.client, task_queue=queue, activities=[note]),
        ):
            declared: dict[str, dict[str, Any]] = {
                "function": {
                    "name": "pay",
                    "kind": "function",
                    "parameters": [{"name": "text", "kind": "string"}],
                },
                "mcp": on_http(f"{web}/mcp", allowedTools=["write.it"]),
                "openapi": {
                    "name": "ledger",
                    "kind": "openapi",
                    "specification": f"{kept.url}/openapi.json",
                },
                "prompty": calls("inside.prompty", parameters=takes("question")),
                "activity": foreign_activity("note", queue, "text:string!", arguments="positional"),
                "a2a": {
                    "name": "office",
                    "kind": "a2a",
                    "connection": {"kind": "anonymous", "endpoint": url},
                    "perdure": {
                        "idempotent": False
                    },  # this agent does not look at the ids of messages
                },
                "isolated": {
                    "name": "sign",
                    "kind": "function",
                    "parameters": [{"name": name, "kind": "string"} for name in ("text", "place")],
                },
            }
            yield FarEnds(crowd.folder, crowd, kept, office, noted, declared)


def script(id: str, kinds: Sequence[str], rounds: int, folder: Path) -> Any:
    """One call of each kind in each round, one after the other; the agent that is called adds one
    entry.
    """
    replies: list[ScriptedReply] = []
    for number in range(rounds):
        for kind in kinds:
            text = f"{id}/{kind}-{number}"
            name, arguments = {
                "function": ("pay", {"text": text}),
                "mcp": ("write_it", {"text": text}),
                "openapi": ("add_entry", {"text": text}),
                "prompty": ("inside", {"question": text}),
                "activity": ("note", {"text": text}),
                "a2a": ("office", {"message": f"echo {text}"}),
                "isolated": ("sign", {"text": text, "place": str(folder / "signed.txt")}),
            }[kind]
            replies.append(
                asks(call(name, f"{kind}-{number}", **arguments)).model_copy(update={"delay": 0.05})
            )
    replies.append(says("All done."))

    def reply(request: ScriptedRequest) -> ScriptedReply:
        if request.body["model"] != "inside":
            return replies[request.step]
        [asked] = [each for each in request.body["messages"] if each["role"] == "user"]
        if not request.step:
            return asks(call("add_entry", "entry", text=asked["content"]))
        return says(request.messages[-1].text)

    return reply


async def play(
    crowd: Crowd,
    kinds: Sequence[str],
    *,
    kills: int,
    at_once: int,
    rounds: int,
    pauses: tuple[float, float],
) -> int:
    """Runs of these kinds, batch after batch, until so many workers were killed; how many effects
    there were.

    None came twice, and each call whose success was recorded had exactly one.
    """
    ids: list[str] = []
    ended: list[RunResult[Any]] = []
    async with far_ends(crowd) as ends:
        async with crowd.killing(3, pauses, kills) as killed:
            while len(killed) < kills:
                batch = [f"{crowd.queue}-{len(ids) + number}" for number in range(at_once)]
                ids += batch
                with ExitStack() as models:
                    scripts = [script(id, kinds, rounds, crowd.folder) for id in batch]
                    served = [models.enter_context(ScriptedModel(each)) for each in scripts]
                    runs = [
                        await ends.start(model, id, kinds)
                        for model, id in zip(served, batch, strict=True)
                    ]
                    ended += await asyncio.gather(*(run.result() for run in runs))
        effects = {kind: ends.effects(kind, ids) for kind in kinds}
    twice = {
        kind: {text: n for text, n in counted.items() if n > 1} for kind, counted in effects.items()
    }
    assert not any(twice.values()), twice
    succeeded = Counter[str]()
    for result in ended:
        assert result.output == "All done."
        succeeded.update(_kind(message) for message in result.messages if _has_succeeded(message))
    for kind in kinds:
        assert effects[kind].total() >= succeeded[kind] > 0, (
            kind,
            effects[kind].total(),
            succeeded,
        )
    return sum(counted.total() for counted in effects.values())


def _kind(message: Message) -> str:
    return str(message.metadata["tool_call_id"]).partition("-")[0]


def _has_succeeded(message: Message) -> bool:
    """Whether its effect is certain: a called agent, whose answer is that of its own tool, may not
    know it.
    """
    if message.role != "tool" or "status" in message.metadata:
        return False
    return _kind(message) != "prompty" or "noted" in message.text
