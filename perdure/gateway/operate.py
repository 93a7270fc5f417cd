"""Operations for operators: pauses, schedules, and the findings about workers and runs."""

from __future__ import annotations

from pydantic import BaseModel, Field, model_validator

from ..client.pauses import pause_runs, pauses_in_force, release_runs
from ..client.schedules import (
    ScheduledRuns,
    ScheduleError,
    list_schedules,
    pause_schedule,
    resume_schedule,
    run_schedule,
)
from ..json_types import JsonObject
from ..protocol.pauses import Pause
from .operations import HttpCall, Nothing
from .own_types import CamelCase, Id
from .problems import HttpProblem


class ScopeBody(CamelCase):
    """The runs to pause: those that match every field that is given, or all."""

    agent: Id | None = None
    tenant: Id | None = None
    task_queue: Id | None = None
    runs: list[Id] = Field(default=[], max_length=1000)
    all: bool = False
    """Whether all runs of the namespace are meant, in the place of the other fields."""
    reason: str = Field(default="", max_length=2000)

    @model_validator(mode="after")
    def _one_of_both(self) -> ScopeBody:
        if self.all == bool(self.agent or self.tenant or self.task_queue or self.runs):
            raise ValueError("expected either some of agent, tenant, taskQueue and runs, or all")
        return self


class FindingView(CamelCase):
    """A fault, and its fix."""

    id: str
    level: str
    """`error` or `warning`."""
    text: str
    do: str
    about: JsonObject


class Examination(BaseModel):
    """The findings of `perdure doctor`, in its JSON form."""

    server: JsonObject
    queues: list[JsonObject]
    findings: list[FindingView]


async def examine(call: HttpCall) -> Examination:
    """The faults of the server, its workers and its runs; each worker is asked once.

    Raises `HttpProblem` where nothing can be examined.
    """
    if call.gateway.examine is None:
        raise HttpProblem(404, "no_doctor", "this gateway was not started by `perdure serve`")
    return Examination.model_validate(await call.gateway.examine())


async def list_pauses(call: HttpCall) -> list[Pause]:
    """The pauses in force, oldest first."""
    return await pauses_in_force(call.gateway.client)


async def pause_many(call: HttpCall[Nothing, ScopeBody]) -> Pause:
    """Pause runs before their next call, those that start later, too."""
    scope = call.body.model_dump(exclude={"all"})
    return await pause_runs(call.gateway.client, **scope, by=call.identity.name)


async def release(call: HttpCall) -> Nothing:
    """Release a pause; runs that are held already are resumed one by one (`go-on`)."""
    await release_runs(call.gateway.client, [call.path["id"]], by=call.identity.name)
    return Nothing()


async def schedules(call: HttpCall) -> list[ScheduledRuns]:
    """The schedules of runs, by name."""
    return await list_schedules(call.gateway.client)


_ACTIONS = {"pause": pause_schedule, "resume": resume_schedule, "run": run_schedule}


async def change_schedule(call: HttpCall) -> Nothing:
    """Pause a schedule, resume it, or start a run of it now: the last part of the path.

    Raises `HttpProblem` for an unknown schedule or action.
    """
    name, action = call.path["name"], call.path["action"]
    if action not in _ACTIONS:
        raise HttpProblem(404, "not_found", f"{action!r}: expected one of {', '.join(_ACTIONS)}")
    try:
        await _ACTIONS[action](call.gateway.client, name)
    except ScheduleError as error:
        raise HttpProblem(404, "not_found", str(error)) from error
    return Nothing()
