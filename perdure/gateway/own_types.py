"""The request and response bodies of perdure's own API."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from ..client.listing import ListedStatus
from ..json_types import JsonObject
from ..media import source_problem
from ..messages import CutShort, Part, Usage
from ..protocol.outcome import RunStatus
from ..tool_calls import PendingApproval
from .operations import camel_case
from .problems import WITHOUT_CONTROLS

MAX_WAIT = 60.0
"""Seconds that a request may wait for a result."""


MAX_ID_CHARS = 200
"""Of ids and names: Temporal's databases fail at NUL in a filter, and headers can have none of
these."""


Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS, pattern=WITHOUT_CONTROLS)]


_ADDRESS = re.compile("/(?:result|events|messages|calls|trace|setup)$")


def _readable(id: str) -> str:
    if found := _ADDRESS.search(id):
        raise ValueError(f"an id can't end with {found[0]}: that is an address of this API")
    return id


NewId = Annotated[Id, AfterValidator(_readable)]
"""Of a run to start."""


class CamelCase(BaseModel):
    """JSON names are in camelCase, as in `.prompty` files."""

    model_config = ConfigDict(
        alias_generator=camel_case,
        populate_by_name=True,
        extra="forbid",
    )


class WhoAsks(CamelCase):
    """The client, as the gateway knows it."""

    name: str
    tenant: str | None
    roles: list[str]
    is_known: bool
    """False at a gateway without authenticators."""


class AgentView(CamelCase):
    """An agent that this gateway offers."""

    name: str
    description: str | None
    inputs: list[JsonObject]
    """As the agent's file declares them."""


class StartRun(CamelCase):
    """The request to start a run."""

    agent: str
    inputs: JsonObject = {}
    id: NewId | None = None
    """The run's id; without one it is made from the agent's name."""


class StartedRun(CamelCase):
    """A run that has been started, by this request or by an earlier one of the same
    `Idempotency-Key`.
    """

    id: str
    is_new: bool


class ListedRun(CamelCase):
    """A run, as lists have it."""

    id: str
    agent: str | None
    title: str
    """The question with which it began, in one line of at most 120 characters."""
    status: ListedStatus
    started: str | None
    closed: str | None
    tenant: str | None
    session: str | None
    origin: str | None
    cost_usd: float | None


class RunView(ListedRun):
    """A run and its status."""

    state: RunStatus


class RunOutcome(CamelCase):
    """The outcome of a run, once it has ended."""

    id: str
    has_ended: bool
    output: Any = None
    iterations: int | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    is_incomplete: bool = False
    cut_short: CutShort | None = None
    """Why the output ends before all was said."""
    error: dict[str, str] | None = None
    """`kind` and `message` of a run that has ended without a result."""


class EventView(BaseModel):
    """An event (`perdure docs events`), with `operations` in place of messages."""

    model_config = ConfigDict(extra="allow")

    seq: int
    type: str
    iteration: int
    position: str
    data: JsonObject


class SteerBody(CamelCase):
    """A message to a run."""

    text: str = Field(min_length=1)
    message_id: Id | None = None
    """The run reads a message once if it arrives again under this id."""


class CancelBody(CamelCase):
    """Why a run or a session is cancelled."""

    reason: str = ""


class PauseBody(CamelCase):
    """Why a run is paused."""

    reason: str = ""


class GoOnBody(CamelCase):
    """The changes with which a held run resumes."""

    options: JsonObject = {}
    """Fields of `RunOptions`, such as the limit that was reached."""
    model: str | None = Field(default=None, min_length=1)
    """The model of further calls: an id, or `PROVIDER/ID`."""


class RunOrigin(CamelCase):
    """A run, and the iteration before which a fork of it began."""

    run: str
    at: int


class RunSetup(CamelCase):
    """A run as it was started; the event `went_on` reports later changes."""

    model: str | None
    options: JsonObject
    """The fields of `RunOptions` that a resumed run may change; its limits are among them."""
    inputs: JsonObject
    fork_of: RunOrigin | None
    forks: list[str]
    """The ids of its newest forks, at most twenty."""
    called_by: str | None
    """The id of the run that called this one."""
    trace_id: str
    """In hexadecimal."""
    trace_url: str | None
    """The trace in a viewer, by `PERDURE_TRACE_URL` of the gateway."""
    temporal_url: str | None
    """The run in Temporal's UI, if the gateway knows where that is."""


class CallBody(CamelCase):
    """The waiting call to decide."""

    call_id: str
    digest: str
    """Of the call as it was looked at: `digest` of what waits."""


class ApproveBody(CallBody):
    """An approval, with other arguments if any are given."""

    arguments: JsonObject | None = None


class DenyBody(CallBody):
    """A denial, with the reason for the model."""

    reason: str = "denied"


class AnswerBody(CallBody):
    """The answer to a question."""

    text: str = Field(min_length=1)


class ForkBody(CamelCase):
    """A fork of a run before an iteration."""

    at: int = Field(ge=1)
    steer: str | None = None
    model: str | None = Field(default=None, min_length=1)
    """Another model: its id, or `PROVIDER/ID`; None for the same."""
    results: dict[str, str] | None = None
    """Call id → another text as the result of that earlier tool call."""
    id: NewId | None = None


class Waiting(CamelCase):
    """A call that waits for a person, and its run."""

    run_id: str
    agent: str | None
    call: PendingApproval


def _with_source(part: Part) -> Part:
    source = getattr(part, "source", None)
    if source is not None and (problem := source_problem(source)):
        raise ValueError(problem)
    return part


class SayBody(CamelCase):
    """A message to a session."""

    text: str = ""
    parts: list[Annotated[Part, AfterValidator(_with_source)]] = []
    """Images, files and recordings, which follow the text."""
    agent: str | None = None
    """With whom a session begins, where there is none of the id yet."""
    replaces: Id | None = None
    """A turn of another session: such a session continues the conversation before its message."""
    message_id: Id | None = None
    """What is sent again under it counts once."""
    while_busy: Literal["steer", "queue", "reject"] | None = None


class TakenMessage(CamelCase):
    """The run that reads a message."""

    session: str
    run: str


class SessionView(CamelCase):
    """A session, as lists have it."""

    id: str
    agent: str | None
    started: str | None
    closed: str | None
    tenant: str | None


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LimitQuery(_Query):
    """How many are listed."""

    limit: int = Field(default=50, ge=1, le=1000)


class RunsQuery(LimitQuery):
    """The filters of a list of runs."""

    agent: str | None = Field(default=None, pattern=WITHOUT_CONTROLS)
    status: ListedStatus | None = None
    session: str | None = Field(default=None, pattern=WITHOUT_CONTROLS)
    since: AwareDatetime | None = None
    """Only runs that began at this time or later."""


class CountsQuery(_Query):
    """Which runs are counted."""

    since: AwareDatetime | None = None


class Counts(CamelCase):
    """The number of runs of each status; `running` has neither those that wait nor those held."""

    running: int
    waiting: int
    held: int
    done: int
    failed: int
    cancelled: int
    terminated: int
    timed_out: int


class CompleteBody(CamelCase):
    """The result or the error that finishes a tool call."""

    result: Any = None
    """Any JSON value, as the tool would return it."""
    error: str | None = None
    """Why there is none; the model is told."""


class WaitQuery(_Query):
    """How long to wait."""

    wait: float = Field(default=0.0, ge=0.0, le=MAX_WAIT)


class EventsQuery(_Query):
    """Which events are meant."""

    after: str = "0"
    """The position of the last one that the reader has."""
    children: bool = False
    """Those of the runs that it calls, too."""


class SessionEventsQuery(_Query):
    """Which events are meant."""

    after: str = ""
    """The position of the last one that the reader has."""


def moment(time: datetime | None) -> str | None:
    """Return a time as ISO 8601; None for none."""
    return time.isoformat(timespec="milliseconds") if time else None
