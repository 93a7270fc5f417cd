"""The types of a session: its input, its messages and their answers, and the state that it carries
from link to link.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Literal

from pydantic import Field

from ..agents import RecordedAgent, RecordedAgents
from ..conversation import ConversationRef
from ..messages import Exchanged, JsonObject, Message, Part, Usage, unless_empty, unless_none
from ..settings.agent_file import options_after_handoff
from ..tool_calls import PendingApproval
from .outcome import Held, RunFailure, RunOutput
from .run import NOT_ASKED_FOR, CarriedConversation, RecordedOptions, given_values
from .signatures import Requesters, content_of

WhileBusy = Literal["steer", "queue", "reject"]


class SessionSetup(Exchanged):
    """The setup with which a session starts its runs."""

    agent: RecordedAgent
    """Without secrets, which are references (`${env:NAME}`)."""
    agents: RecordedAgents = unless_empty({})
    """The agents in other files that this one can reach, by path."""
    handoffs: dict[str, list[Message]] = unless_empty({})
    """As in `RunInput`."""
    messages: list[Message] = []
    """The conversation before the first message: the agent's instructions."""
    inputs: JsonObject = {}
    """The inputs that bindings refer to (§9.6)."""
    deps: Any = unless_none()
    """As in `RunInput`, for each run."""
    options: RecordedOptions = RecordedOptions()
    given: list[str] = unless_empty([])
    """As in `RunInput`."""

    def handed_to(self, path: str) -> SessionSetup:
        """Return a copy for runs of the agent of that path; the setup itself if there is none.

        Raises LoadError for a wrong setting in its file.
        """
        if path not in self.handoffs:
            return self
        agent = self.agents[path]
        options = options_after_handoff(self.options, self.agent, agent, self.given)
        update = {"agent": agent, "messages": self.handoffs[path], "options": options}
        return self.model_copy(update=update)

    @property
    def digest(self) -> str:
        """Digest, equal for equal setups whatever their form in JSON."""
        return blake2b(
            json.dumps(given_values(self), sort_keys=True).encode(), digest_size=32
        ).hexdigest()


_NOT_SIGNED = {"requested_by", "setup", "traceparent"}
"""The fields of a message that its signature leaves out: the digest stands for the setup."""


class SessionMessage(Exchanged):
    """A message to a session: the argument of its update `send`."""

    text: str
    id: str
    """Identifies the message, so that a duplicate counts once."""
    parts: list[Part] = unless_empty([])
    """Images, files and recordings, which follow the text. A message with parts never steers: it
    waits for a turn."""
    while_busy: WhileBusy = "steer"
    """The handling while a run is active: let the run read it, start the next run with it, or
    refuse it."""
    by: str | None = None
    """The sender; for readers of the history."""
    role: Literal["user", "task-delegation"] = "user"
    """`task-delegation` for the task of another agent (KAOS); the model reads it as a user's
    message."""
    setup_digest: str = ""
    """The digest of the sender's `SessionSetup`; "" for the session's current one, which its
    starter signed."""
    setup: SessionSetup | None = unless_empty(None)
    """Sent if the session has another setup: runs from now on start with this one."""
    traceparent: str = unless_empty("")
    """The span in which it was sent (W3C Trace Context), if any: the trace of a run that begins
    links to it."""
    requested_by: Requesters | None = unless_none()
    """The sender, signed by a gateway."""

    def content(self, origin: str) -> str:
        """Return the signed content, for the session whose first link has the run id `origin`.

        A later session of the same id does not take the message.
        """
        given = given_values(self, without=_NOT_SIGNED)
        # Without its kind, an image would be signed as a file of the same content is.
        parts = [each.model_dump(mode="json", by_alias=True) for each in self.parts]
        return content_of("send", origin, {**given, "parts": parts} if parts else given)

    @property
    def text_digest(self) -> str:
        """Digest, equal for equal texts and parts."""
        said = [self.text, *(each.model_dump_json(by_alias=True) for each in self.parts)]
        return blake2b("".join(said).encode(), digest_size=8).hexdigest()


class Taken(Exchanged):
    """The answer of the update `send`: the run that a message goes to."""

    became: Literal["turn", "steering", "queued"]
    run_id: str
    """The id of the run that reads the message."""
    first_run_id: str = ""
    """The run id of that run's first link; "" while the run has not begun."""
    turn: int
    text_digest: str = unless_empty("")
    """The digest of the message's text and parts, which reveals another message under the same
    id."""


class SessionNote(Exchanged):
    """An event added to those of a session: the argument of its signal `note`."""

    type: str
    content: object = None
    metadata: JsonObject = {}


class HandedOver(Exchanged):
    """A part of the messages that a turn added to the conversation: the argument of the session's
    signal `hand_over`.
    """

    turn: int
    reference: ConversationRef
    """The first one starts at the session's own conversation of the time when the turn began."""
    requested_by: Requesters | None = unless_none()
    """As in `RunOutput`, for this part."""
    is_last: bool = False
    """Whether this is the last part; without it, the parts before do not count."""
    unread_steering: int = unless_empty(0)
    """As in `RunOutput`; only in the last part."""
    unchecked: int = unless_empty(0)
    """As in `RunOutput`; only in the last part."""
    handed_to: str = unless_empty("")
    """As in `RunOutput`; only in the last part."""


class SessionUse(Exchanged):
    """The usage of a session's ended turns, as they reported it: a cancelled turn does not report
    any.
    """

    usage: Usage = Field(default=Usage(), exclude_if=lambda usage: usage == Usage())
    """Includes the runs that they called."""
    cost_usd: float | None = unless_none()
    """As in `RunResult`."""
    unpriced_calls: int = unless_empty(0)

    def with_turn(self, end: RunOutput | RunFailure) -> SessionUse:
        """Return the sum with a further turn, from its result or the details of its failure."""
        costs = [cost for cost in (self.cost_usd, end.cost_usd) if cost is not None]
        return SessionUse(
            usage=self.usage + end.usage,
            cost_usd=sum(costs) if costs else None,
            unpriced_calls=self.unpriced_calls + end.unpriced_calls,
        )


class SessionStatus(SessionUse):
    """The state of a session: the answer of its query `status`; `usage` and cost are those of the
    ended turns.
    """

    status: Literal["new", "running", "waiting", "held", "ended"]
    """`new` before the first message. Readers find out that the current run waits or is held: the
    session itself answers `running`."""
    reason: str = unless_empty("")
    """The reason for `status`. Of `waiting`: `message` between two turns, else `approval` or
    `question`. Of `held`: the first reason of `held`. Of `ended`: `closed`, `cancelled`,
    `terminated`, `timed_out` or `failed`."""
    is_closing: bool = unless_empty(False)
    """Whether the session accepts no more messages, and ends after those that it has accepted."""
    turn: int = 0
    """The number of the last turn that began; 0 before the first."""
    run_id: str | None = None
    """The current run, if any."""
    first_run_id: str | None = None
    queued: int = 0
    """The number of messages that wait for a turn of their own."""
    queue: list[str] = unless_empty([])
    """The texts of these messages, of which each is one line of at most 200 characters."""
    setup_digest: str = ""
    pending_approvals: list[PendingApproval] = unless_empty([])
    """The calls that wait for a person in the current run and in those that it called; set by
    readers."""
    held: list[Held] = unless_empty([])
    """The reasons why the current run, or runs that it called, are held, each with its `run_id`;
    set by readers."""


class QueuedMessage(Exchanged):
    """A message that waits for a turn of its own."""

    text: str
    id: str
    parts: list[Part] = unless_empty([])
    role: Literal["user", "task-delegation"] = "user"
    traceparent: str = unless_empty("")


class CarriedSession(SessionUse):
    """The state that survives a session's continue-as-new besides its input."""

    turn: int
    """The last turn that began."""
    conversation: CarriedConversation
    """As the model would see it next."""
    unchecked: int = unless_empty(0)
    """The number of messages at its end that no input guardrail has passed."""
    taken: dict[str, Taken] = {}
    """The messages accepted recently, by id, by which the session recognises a duplicate."""
    queued: list[QueuedMessage] = []
    handed_to: str = unless_empty("")
    """The path of the agent that spoke last; "" for the setup's own."""
    first_run_id: str = ""
    links: int = 1


def used_before(carried: CarriedSession | None) -> SessionUse:
    """Return the usage of the turns of earlier links."""
    return (
        SessionUse(**{name: getattr(carried, name) for name in SessionUse.model_fields})
        if carried
        else SessionUse()
    )


class SessionInput(Exchanged):
    """The argument of the workflow `perdure.Session`."""

    setup: SessionSetup
    idle_timeout: float | None = None
    """The seconds without a run or a message after which the session closes; None for never."""
    loop_version: int = 1
    """As in `RunInput`; the turns use it, too."""
    search_attributes: list[str] = []
    """As in `RunInput`."""
    user: str | None = None
    """The user that the session belongs to, for lists of sessions."""
    requested_by: Requesters | None = unless_none()
    """The starter of the session, signed by a gateway; in a later link, all requesters, signed by
    the link before. None if any of them is unknown."""
    carried: CarriedSession | None = None
    """None for the first link of a session."""

    @property
    def content(self) -> str:
        """Return the content that the starter signs: the setup, and all other settings of the
        session.
        """
        return content_of("session", given_values(self, without=NOT_ASKED_FOR))
