"""Removes unreferenced values from the storage (`perdure docs deletion`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from pydantic import BaseModel
from temporalio.client import Client

from ..errors import ConfigurationError
from ..history.references import digests_in, events_of_link
from ..payloads.converter import with_converter
from ..payloads.storage import StoredValue, StoredValues, values_of
from .family import schedule_of

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3_600.0
"""A value that was stored less long ago may be on its way into a history."""
AT_ONCE = 20
"""The number of histories that are read concurrently."""


class Sweep(BaseModel):
    """The outcome of a sweep."""

    values: int
    """The number of values in the storage."""
    removed: list[str] = []
    """The places of the unreferenced values."""
    histories: int = 0
    """The number of histories read."""


async def sweep_storage(
    client: Client, *, older_than: float = DAY_SECONDS, shared: bool = False, dry_run: bool = False
) -> Sweep:
    """Remove the values of the client's namespace to which no run, session or schedule refers;
    workers may run.

    Values stored within the last `older_than` seconds stay. `shared` includes values without a run:
    only for a storage that no other namespace or server uses. `dry_run` removes nothing.

    Raises ValueError for less than an hour, `ConfigurationError` for a client without a storage of
    perdure's, and the errors of the server and the storage.
    """
    if older_than < HOUR_SECONDS:
        raise ValueError(f"older_than={older_than:g}: expected {HOUR_SECONDS:g} seconds at least")
    client = with_converter(client)
    values = values_of(client.data_converter.external_storage)
    if values is None:
        raise ConfigurationError(
            "there is no storage to sweep: set PERDURE_STORAGE as the workers have it"
        )
    # List the values before the histories: a value stored in between is too young to be removed.
    try:
        listed = [value async for value in values.values(client.namespace)]
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"the storage {error.filename!r} is not there: expected the folder of the workers. "
            "Mount it here, or set "
            "PERDURE_STORAGE to where it is"
        ) from error
    before = time.time() - older_than
    candidates = [each for each in listed if each.modified < before and (each.owner or shared)]
    executions = (
        [(run.id, run.run_id) async for run in client.list_workflows("")] if candidates else []
    )
    schedules = [entry.id async for entry in await client.list_schedules()] if candidates else []
    known = {values.owner(id) for id in (*schedules, *(id for id, _ in executions))}
    candidates = [each for each in candidates if each.owner not in known]
    sweep = Sweep(values=len(listed), histories=len(executions) if candidates else 0)
    referred = await _digests(client, executions, schedules) if candidates else set[str]()
    unused = [each for each in candidates if each.digest not in referred]
    sweep.removed = (
        [each.key for each in unused]
        if dry_run
        else [key async for key in _remove_each(values, unused)]
    )
    return sweep


async def _remove_each(values: StoredValues, unused: Iterable[StoredValue]) -> AsyncIterator[str]:
    for each in unused:
        if await values.remove(each):
            yield each.key


async def _digests(
    client: Client, executions: Iterable[tuple[str, str]], schedules: Iterable[str]
) -> set[str]:
    """Return the digests of all values that histories and schedules refer to."""
    found, left = set[str](), iter(executions)

    async def work() -> None:
        for id, run_id in left:
            async for event in events_of_link(client, id, run_id):
                found.update(digests_in(event.SerializeToString()))

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    for name in schedules:
        if (described := await schedule_of(client, name)) is not None:
            found |= digests_in(described.raw_description.SerializeToString())
    return found
