"""The shape of one schedule: an agent, its model's plan, and what people do meanwhile."""

from __future__ import annotations

import json
from collections.abc import Coroutine
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
from perdure.client.sessions.session import setup_of
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.protocol.names import SESSION_WORKFLOW, WORKFLOW
from perdure.protocol.run import RunInput
from perdure.protocol.session import SessionInput
from perdure.providers.prices import Prices
from perdure.tools.dispatch import ToolBox
from perdure.tools.user_loop import UserLoop

from .chance import Chance
from .clock import VirtualLoop
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
    """steer or cancel a run; send to, close or cancel a session, or cancel its turn."""
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
    is_session: bool = False
    """Whether people talk to a session, whose turns are the runs."""
    seed: int = 0
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The calls that the model has asked for: tool and text by id."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that the plan uses."""
        return tuple(sorted({name for calls in self.plan for name, _ in calls}))

    def activities(self, process: Process) -> OneProcess:
        """Return perdure's activities with the tools, for a new process."""
        known = _spare.pop() if _spare else OneProcess()
        known.begin(process.world.loop)
        return known

    def start(self) -> Start:
        """Return what starts the run, or the session."""
        known = json.dumps(self.options, sort_keys=True), self.tools, self.is_session
        return Start(
            SESSION_WORKFLOW if self.is_session else WORKFLOW,
            [Payload.FromString(_input(*known))],
            task_timeout=8.0,
            attributes=_attributes(),
        )


_spare: list[OneProcess] = []


class OneProcess:
    """perdure's activities in one process. Making them takes long, so schedules share them."""

    def __init__(self) -> None:
        self._loop = loop = UserLoop()
        self.runs = RunCache()
        toolbox = ToolBox(TOOLS, registered=False, loop=loop)
        hooks = Hooks(GUARDRAILS, {}, in_threads=False, loop=loop)
        self._readers = Readers()
        made = RunActivities(
            toolbox,
            hooks,
            self.runs,
            loop,
            Prices(None),
            Credentials(None, loop),
            readers=self._readers,
        )
        self._made = made
        self._activities = Activities([*made.all], made.tools.any_tool)

    def begin(self, loop: VirtualLoop) -> None:
        """Begin a process: nothing is known of any run."""
        self._loop._given = loop
        self._loop._awaited.clear()
        self.runs.__init__()  # type: ignore[misc]
        self._readers.__init__()  # type: ignore[misc]
        self._made.tools._poison_calls.__init__()  # type: ignore[misc]

    def call(self, name: str, payloads: list[Payload]) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of one call."""
        return self._activities.call(name, payloads)

    def give_back(self) -> None:
        """Let another schedule have the activities."""
        _spare.append(self)


def draw_scene(seed: int, chance: Chance) -> Scene:
    """Return the shape of a schedule."""
    is_session = chance.happens_at_all(0.25)
    plan: list[list[tuple[str, str]]] = []
    for step in range(chance.number(0, 3) + 3 * is_session):
        if is_session and chance.happens_at_all(0.4):
            plan.append([])
            continue
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
    if is_session:
        deeds = [
            Deed(chance.moment(), "send", f"note {number}") for number in range(chance.number(1, 5))
        ]
        deeds.append(Deed(chance.between(5.0, 20.0), "close"))
        if chance.happens_at_all(0.2):
            deeds.append(Deed(chance.moment(), "cancel_turn"))
    else:
        deeds = _deeds_of_run(chance)
    if chance.happens_at_all(0.15 if not is_session else 0.05):
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
        is_session=is_session,
    )


def _deeds_of_run(chance: Chance) -> list[Deed]:
    return [
        Deed(chance.moment(), "steer", f"note {number}")
        for number in range(chance.number(0, 3) if chance.happens_at_all(0.6) else 0)
    ]


@lru_cache(maxsize=4096)
def _input(options: str, tools: tuple[str, ...], is_session: bool) -> bytes:
    """Return the input of a run or a session, encoded once for all schedules."""
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
                for name in tools
            ],
        }
    )
    first = [Message.system("Be brief.")]
    chosen = RunOptions(**json.loads(options))
    begun: SessionInput | RunInput
    if is_session:
        setup = setup_of(agent, None, chosen, messages=first)
        begun = SessionInput(setup=setup, search_attributes=sorted(ATTRIBUTES))
    else:
        begun = new_run(agent, None, chosen, [*first, Message.user("Begin.")], None)
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
