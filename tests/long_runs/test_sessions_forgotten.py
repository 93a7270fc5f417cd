"""A session whose oldest links are removed while they are read."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, FetchWorkflowHistoryEventsInput, Interceptor, OutboundInterceptor

from perdure.client import session
from perdure.client.sessions.reading import PromisedChain
from perdure.history.link import read_start
from perdure.testing import ScriptedModel, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.retention import remove_link
from ..support.stage import Stage

Scripted = Callable[[Script], ScriptedModel]


class Retention(Interceptor):
    """Removes a link as soon as the client has read the first of its events."""

    def __init__(self, client: Client, workflow_id: str, run_id: str) -> None:
        self.run_id = run_id
        self.has_removed = False
        self._client, self._workflow_id = client, workflow_id

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Removing(next, self)

    async def remove(self) -> None:
        await remove_link(self._client, self._workflow_id, self.run_id)
        self.has_removed = True


class _Removing(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, retention: Retention) -> None:
        super().__init__(next)
        self._retention = retention

    def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> Any:
        events = super().fetch_workflow_history_events(input)
        is_due = input.run_id == self._retention.run_id and not self._retention.has_removed
        return self._removed_after(events) if is_due else events

    async def _removed_after(self, events: AsyncIterator[HistoryEvent]) -> AsyncIterator[HistoryEvent]:
        async for event in events:
            if not self._retention.has_removed:
                await self._retention.remove()
            yield event


@pytest.mark.trial  # a server takes half a minute to remove a link
async def test_a_promised_run_is_found_although_the_oldest_link_goes_meanwhile(
    stage: Stage, scripted: Scripted
) -> None:
    id = f"talk-{uuid.uuid4()}"
    model = scripted(lambda request: says(f"re: {request.messages[-1].text}"))
    async with stage.worker():
        talk = session(stage.client, scripted_agent(model), id, task_queue=stage.task_queue)
        while True:
            run = await talk.send("more")
            assert (await run.result()).output == "re: more"
            if len(links := await _links(stage.client, id)) > 1:
                break
        await talk.close()
    retention = Retention(stage.client, id, links[-1])
    reader = Client(**{**stage.client.config(active_config=True), "interceptors": [retention]})
    found = await PromisedChain(reader, run.id, id, links[0], 1).known_run_id()
    assert retention.has_removed
    assert found == (await stage.client.get_workflow_handle(run.id).describe()).run_id


async def _links(client: Client, id: str) -> list[str]:
    """Run ids of the session's links, the latest one first."""
    links = [(await client.get_workflow_handle(id).describe()).run_id]
    while previous := (await read_start(client, id, links[-1])).continued_execution_run_id:
        links.append(previous)
    return links
