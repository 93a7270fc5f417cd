"""The shape of one schedule: an agent, its model's plan, and what people do meanwhile."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from temporalio.api.common.v1 import Payload, SearchAttributes

from perdure.activities.credentials import Credentials
from perdure.activities.heartbeat import Readers
from perdure.activities.hooks import Hooks
from perdure.activities.run_activities import RunActivities
from perdure.activities.run_cache import RunCache
from perdure.agents import Agent
from perdure.client.run_input import new_run
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.protocol.names import WORKFLOW
from perdure.providers.prices import Prices
from perdure.tools.dispatch import ToolBox
from perdure.tools.user_loop import UserLoop

from .chance import Chance
from .execution import Activities
from .history import Start
from .instances import CONVERTER
from .tools import GUARDRAILS, TOOLS

if TYPE_CHECKING:
    from .execution import Process

TOOL_NAMES = ("look", "pay", "risky", "broken", "near", "alone")
ATTRIBUTES = {"PerdureStatus": ("Keyword", b'"running"'), "PerdureCost": ("Double", b"0.0")}


@dataclass
class Deed:
    """What somebody does at some moment, `at` seconds after the start."""

    at: float
    kind: str
    """steer, cancel, decide, terminate or query."""
    text: str = ""


@dataclass
class Scene:
    """All that is chosen before a schedule begins."""

    plan: list[list[tuple[str, str]]]
    """For each reply of the model: the calls, by tool and text; [] answers."""
    options: dict[str, Any]
    deeds: list[Deed]
    workers: int
    suggest_after: int
    model_errors: float
    forgets: float
    """The probability that a worker has forgotten a run before it executes an activity."""
    edits: float = 0.0
    """The probability that a person edits the arguments of a call."""
    wire: str = "chat"
    seed: int = 0
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The calls that the model has asked for: tool and text by id."""

    def activities(self, process: Process) -> tuple[Activities, RunCache]:
        """Return perdure's activities with this scene's tools, for a new process."""
        cache = RunCache()
        loop = UserLoop(process.world.loop)
        toolbox = ToolBox(TOOLS, registered=False, loop=loop)
        readers = Readers()
        runs = RunActivities(
            toolbox,
            Hooks(GUARDRAILS, {}, in_threads=False, loop=loop),
            cache,
            loop,
            Prices(None),
            Credentials(None, loop),
            readers=readers,
        )
        return Activities([*runs.all], runs.tools.any_tool), cache

    def start(self) -> Start:
        """Return what starts the run."""
        return Start(
            WORKFLOW,
            [Payload.FromString(_input(json.dumps(self.options, sort_keys=True)))],
            task_timeout=8.0,
            attributes=_attributes(),
        )


def draw_scene(seed: int, chance: Chance) -> Scene:
    """Return the shape of a schedule."""
    plan: list[list[tuple[str, str]]] = []
    for step in range(chance.number(0, 3)):
        calls = chance.number(1, 3) if chance.happens_at_all(0.4) else 1
        plan.append([(chance.choice(TOOL_NAMES), f"{step}.{index}") for index in range(calls)])
    options: dict[str, Any] = {"parallel_tool_calls": chance.happens_at_all(0.6)}
    if chance.happens_at_all(0.15):
        options["max_iterations"] = chance.number(1, 3)
        options["on_limit"] = chance.choice(["raise", "partial", "final_answer"])
    if chance.happens_at_all(0.1):
        options["max_tool_calls"] = chance.number(1, 3)
    if chance.happens_at_all(0.2):
        options["guardrails"] = chance.choice(["plain", "async"])
    if chance.happens_at_all(0.1):
        options["on_failure"] = "hold"
    deeds = [
        Deed(chance.moment(), "steer", f"note {number}")
        for number in range(chance.number(0, 3) if chance.happens_at_all(0.6) else 0)
    ]
    if chance.happens_at_all(0.15):
        deeds.append(Deed(chance.moment(), "cancel"))
    return Scene(
        plan=plan,
        options=options,
        deeds=deeds,
        workers=chance.number(1, 3),
        suggest_after=chance.choice([100_000, 100_000, 100_000, 20, 30]),
        model_errors=chance.choice([0.0, 0.0, 0.05, 0.3]),
        forgets=chance.choice([0.0, 0.0, 0.3]),
        edits=chance.choice([0.0, 0.3]),
        seed=seed,
    )


@lru_cache(maxsize=512)
def _input(options: str) -> bytes:
    """Return a run's input with these options, encoded once for all schedules."""
    agent = Agent.model_validate(
        {
            "name": "simulated",
            "model": {
                "id": "plan",
                "provider": "simulated",
                "apiType": "chat",
                "connection": {"kind": "key", "endpoint": "http://simulated"},
            },
            "tools": [
                {
                    "name": name,
                    "kind": "function",
                    "parameters": [{"name": "text", "kind": "string"}],
                }
                for name in TOOL_NAMES
            ],
        }
    )
    begun = new_run(
        agent,
        None,
        RunOptions(**json.loads(options)),
        [Message.system("Be brief."), Message.user("Begin.")],
        None,
    )
    begun.search_attributes = sorted(ATTRIBUTES)
    return CONVERTER.payload_converter.to_payloads([begun])[0].SerializeToString()


@lru_cache(maxsize=1)
def _attributes() -> SearchAttributes:
    attributes = SearchAttributes()
    for name, (type, data) in ATTRIBUTES.items():
        payload = attributes.indexed_fields[name]
        payload.metadata["encoding"], payload.metadata["type"] = b"json/plain", type.encode()
        payload.data = data
    return attributes
