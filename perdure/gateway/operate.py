"""What operators do: pauses, schedules, and the findings about workers and runs."""

from __future__ import annotations

from pydantic import BaseModel, Field

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
    """The runs to pause: those that match every field that is given; all runs without any."""

    agent: Id | None = None
    tenant: Id | None = None
    task_queue: Id | None = None
    runs: list[Id] = Field(default=[], max_length=1000)
    reason: str = ""


class FindingView(CamelCase):
    """Something that is wrong, and what to do about it."""

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


def _require_operator(call: HttpCall[Nothing, ScopeBody] | HttpCall) -> None:
    """Raise `HttpProblem` for a client of a tenant: these operations concern all tenants."""
    if (tenant := call.identity.tenant) is not None:
        raise HttpProblem(
            403,
            "not_operator",
            f"{call.identity.name} is of the tenant {tenant!r}, and this concerns all tenants: "
            "expected somebody without a tenant",
        )


async def examine(call: HttpCall) -> Examination:
    """What is wrong with the server, its workers and its runs; each worker is asked once.

    Raises `HttpProblem` for clients of a tenant, and where nothing can be examined.
    """
    _require_operator(call)
    if call.gateway.examine is None:
        raise HttpProblem(404, "no_doctor", "this gateway was not started by `perdure serve`")
    return Examination.model_validate(await call.gateway.examine())


async def list_pauses(call: HttpCall) -> list[Pause]:
    """The pauses in force, oldest first."""
    _require_operator(call)
    return await pauses_in_force(call.gateway.client)


async def pause_many(call: HttpCall[Nothing, ScopeBody]) -> Pause:
    """Pause runs before their next call, those that start later, too."""
    _require_operator(call)
    scope = call.body.model_dump()
    return await pause_runs(call.gateway.client, **scope, by=call.identity.name)


async def release(call: HttpCall) -> Nothing:
    """Release a pause; runs that are held already are resumed one by one (`go-on`)."""
    _require_operator(call)
    await release_runs(call.gateway.client, [call.path["id"]], by=call.identity.name)
    return Nothing()


async def schedules(call: HttpCall) -> list[ScheduledRuns]:
    """The schedules of runs, by name."""
    _require_operator(call)
    return await list_schedules(call.gateway.client)


_ACTIONS = {"pause": pause_schedule, "resume": resume_schedule, "run": run_schedule}


async def change_schedule(call: HttpCall) -> Nothing:
    """Pause a schedule, resume it, or start a run of it now: the last part of the path.

    Raises `HttpProblem` for clients of a tenant, and for an unknown schedule or action.
    """
    _require_operator(call)
    name, action = call.path["name"], call.path["action"]
    if action not in _ACTIONS:
        raise HttpProblem(404, "not_found", f"{action!r}: expected one of {', '.join(_ACTIONS)}")
    try:
        await _ACTIONS[action](call.gateway.client, name)
    except ScheduleError as error:
        raise HttpProblem(404, "not_found", str(error)) from error
    return Nothing()
