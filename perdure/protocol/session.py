"""The types of a session: its input, its messages and their answers, and what it carries from link to link."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Literal

from pydantic import Field

from ..agents import RecordedAgent, RecordedAgents
from ..conversation import ConversationRef
from ..messages import Exchanged, JsonObject, Message, Usage, unless_empty, unless_none
from ..settings.agent_file import options_after_handoff
from ..tool_calls import PendingApproval
from ..vouching import Requesters, content_of
from .outcome import Held, RunFailure, RunOutput
from .run import CarriedConversation, RecordedOptions

WhileBusy = Literal["steer", "queue", "reject"]


class SessionSetup(Exchanged):
    """What the runs of a session are started with."""

    agent: RecordedAgent
    """Without secrets: those are references (`${env:NAME}`)."""
    agents: RecordedAgents = unless_empty({})
    """The agents of other files that this one can reach, by path."""
    handoffs: dict[str, list[Message]] = unless_empty({})
    """As in `RunInput`."""
    messages: list[Message] = []
    """The conversation before anybody has said anything: the agent's instructions."""
    inputs: JsonObject = {}
    """The inputs that bindings refer to (§9.6)."""
    deps: Any = unless_none()
    """As in `RunInput`, for each run."""
    options: RecordedOptions = RecordedOptions()
    given: list[str] = unless_empty([])
    """As in `RunInput`."""

    def handed_to(self, path: str) -> SessionSetup:
        """Return the same for runs of the agent of that path; itself where there is none.

        Raises LoadError for a setting of its file that is wrong.
        """
        if path not in self.handoffs:
            return self
        agent = self.agents[path]
        options = options_after_handoff(self.options, self.agent, agent, self.given)
        update = {"agent": agent, "messages": self.handoffs[path], "options": options}
        return self.model_copy(update=update)

    @property
    def digest(self) -> str:
        """Digest, equal for equal setups."""
        return blake2b(self.__pydantic_serializer__.to_json(self, by_alias=True), digest_size=16).hexdigest()


class SessionMessage(Exchanged):
    """A message to a session: the argument of its update `send`."""

    text: str
    id: str
    """Identifies the message, so that one that is sent twice counts once."""
    while_busy: WhileBusy = "steer"
    """What to do while a run is under way: let the run read it, start the next run with it, or refuse it."""
    by: str | None = None
    """Who sends it; for readers of the history."""
    role: Literal["user", "task-delegation"] = "user"
    """`task-delegation` for the task of another agent (KAOS); the model reads it as a user's message."""
    setup_digest: str = ""
    """Of the sender's `SessionSetup`; "" for whatever the session has."""
    setup: SessionSetup | None = unless_empty(None)
    """Sent when the session has another one: runs from now on are started with it."""
    traceparent: str = unless_empty("")
    """The span in which it was sent (W3C Trace Context), if there was one: the trace of a run that begins links to it.
    """
    requested_by: Requesters | None = unless_none()
    """Who sends it, as a gateway vouches for it."""

    @property
    def content(self) -> str:
        """Return what is signed of it."""
        return content_of("send", self.id, self.text)

    @property
    def text_digest(self) -> str:
        """Digest, equal for equal texts."""
        return blake2b(self.text.encode(), digest_size=8).hexdigest()


class Taken(Exchanged):
    """What has become of a message: the answer of the update `send`."""

    became: Literal["turn", "steering", "queued"]
    run_id: str
    """The id of the run that reads it."""
    first_run_id: str = ""
    """Temporal's id of that run's first link; "" while the run has not begun."""
    turn: int
    place: int = unless_empty(0)
    """Of a queued message: how many turns after the one then running this message gets its own; more where another
    workflow has the id `run_id`."""
    text_digest: str = unless_empty("")
    """Of the message's text, so that another text under the same id is noticed."""


class SessionNote(Exchanged):
    """An event that somebody wants to find among those of a session: the argument of its signal `note`."""

    type: str
    content: object = None
    metadata: JsonObject = {}


class HandedOver(Exchanged):
    """A part of what a turn has added to the conversation: the argument of the session's signal `hand_over`."""

    turn: int
    reference: ConversationRef
    """The first one starts where the session's own conversation stood when the turn began."""
    is_last: bool = False
    """Whether this is the last part; without that, the parts before it do not count."""
    unread_steering: int = unless_empty(0)
    """As in `RunOutput`; only in the last part."""
    unchecked: int = unless_empty(0)
    """As in `RunOutput`; only in the last part."""
    handed_to: str = unless_empty("")
    """As in `RunOutput`; only in the last part."""


class SessionUse(Exchanged):
    """What the turns of a session have used that have ended, as far as they say it: one that is cancelled does not."""

    usage: Usage = Field(default=Usage(), exclude_if=lambda usage: usage == Usage())
    """With the runs that they have called."""
    cost_usd: float | None = unless_none()
    """As in `RunResult`."""
    unpriced_calls: int = unless_empty(0)

    def with_turn(self, end: RunOutput | RunFailure) -> SessionUse:
        """Return the sum with a further turn, by its result or the details of its failure."""
        costs = [cost for cost in (self.cost_usd, end.cost_usd) if cost is not None]
        return SessionUse(
            usage=self.usage + end.usage,
            cost_usd=sum(costs) if costs else None,
            unpriced_calls=self.unpriced_calls + end.unpriced_calls,
        )


class SessionStatus(SessionUse):
    """Where a session stands: the answer of its query `status`; `usage` and cost are those of the turns that ended."""

    status: Literal["new", "running", "waiting", "held", "ended"]
    """`new` before the first message. Readers find out that the run under way waits or is held: the session itself
    answers `running`.
    """
    reason: str = unless_empty("")
    """Why it stands so. Of `waiting`: `message` between two turns, else `approval` or `question`. Of `held`: the first
    reason of `held`. Of `ended`: `closed`, `cancelled`, `terminated`, `timed_out` or `failed`.
    """
    is_closing: bool = unless_empty(False)
    """Whether the session takes no more messages, and ends after those that it has taken."""
    turn: int = 0
    """The number of the last turn that has begun; 0 before the first."""
    run_id: str | None = None
    """The run under way, if there is one."""
    first_run_id: str | None = None
    queued: int = 0
    """How many messages wait for a turn of their own."""
    setup_digest: str = ""
    pending_approvals: list[PendingApproval] = unless_empty([])
    """What waits for a person in the run under way, and in those that it has called; readers find this out."""
    held: list[Held] = unless_empty([])
    """Why the run under way, or runs that it has called, are held, each with its `run_id`; readers find this out."""


class QueuedMessage(Exchanged):
    """A message that waits for a turn of its own."""

    text: str
    id: str
    role: Literal["user", "task-delegation"] = "user"
    traceparent: str = unless_empty("")


class CarriedSession(SessionUse):
    """What survives a session's continue-as-new besides its input."""

    turn: int
    """The last one that has begun."""
    conversation: CarriedConversation
    """As the model would see it next."""
    unchecked: int = unless_empty(0)
    """How many of its last messages no input guardrail has let through."""
    taken: dict[str, Taken] = {}
    """The messages that were taken of late, by id, so that a repetition is known for one."""
    queued: list[QueuedMessage] = []
    handed_to: str = unless_empty("")
    """The path of the agent that has spoken last; "" for the setup's own."""
    requested_by: Requesters | None = unless_none()
    """Everybody who has sent a message, signed by the link before; None where somebody is unknown."""
    first_run_id: str = ""
    links: int = 1


def used_before(carried: CarriedSession | None) -> SessionUse:
    """Return what the turns of earlier links have used."""
    return SessionUse(**{name: getattr(carried, name) for name in SessionUse.model_fields}) if carried else SessionUse()


class SessionInput(Exchanged):
    """The argument of the workflow `perdure.Session`."""

    setup: SessionSetup
    setup_digest: str = ""
    """Of the setup, as who has sent it knows it (`SessionMessage.setup_digest`)."""
    idle_timeout: float | None = None
    """Seconds without a run or a message after which the session closes; None for never."""
    loop_version: int = 1
    """As in `RunInput`; the turns go by it, too."""
    search_attributes: list[str] = []
    """As in `RunInput`."""
    user: str | None = None
    """On whose behalf the session is, for those who list sessions."""
    carried: CarriedSession | None = None
    """None for the first link of a session."""
