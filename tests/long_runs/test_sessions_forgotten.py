"""A session whose oldest links are removed while they are read."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from temporalio.client import Client

from perdure.client import session
from perdure.client.sessions.reading import PromisedChain
from perdure.history.link import read_start
from perdure.testing import ScriptedModel, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.retention import Retention
from ..support.stage import Stage

Scripted = Callable[[Script], ScriptedModel]


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
    found = await PromisedChain(retention.reader, run.id, id, links[0], 1).known_run_id()
    assert retention.has_removed
    assert found == (await stage.client.get_workflow_handle(run.id).describe()).run_id


async def _links(client: Client, id: str) -> list[str]:
    """Run ids of the session's links, the latest one first."""
    links = [(await client.get_workflow_handle(id).describe()).run_id]
    while previous := (await read_start(client, id, links[-1])).continued_execution_run_id:
        links.append(previous)
    return links
