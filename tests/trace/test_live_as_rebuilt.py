"""A trace that is exported while the run goes on and one that is rebuilt from its history are
one.
"""

from __future__ import annotations

import pytest
from temporalio.client import Client

from perdure.client import get_run
from perdure.trace.describe import COST

from ..histories.scenarios import SCENARIOS
from ..support.tracing import TracedScene, require_one_trace, trace_id

FEW = (
    "called_agent",
    "retries",
    "plain_guardrails",
    "approval",
    "cancelled_in_a_tool",
    "local_and_repeated",
)


@pytest.mark.parametrize("name", FEW)
async def test_what_was_exported_is_in_the_rebuilt_trace(
    client: Client, task_queue: str, name: str
) -> None:
    await compare(client, task_queue, name)


async def compare(client: Client, task_queue: str, name: str) -> None:
    scene = TracedScene(client, task_queue)
    run = await SCENARIOS[name](scene)
    live = scene.traced.live
    assert live
    rebuilt = await run.trace()
    if forked := await run.fork_of():
        # A fork is a run of its own, with a trace of its own.
        first = await get_run(client, forked.run).trace()
        require_one_trace([span for span in live if trace_id(span) == trace_id(first[0])], first)
        live = [span for span in live if trace_id(span) != trace_id(first[0])]
    require_one_trace(live, rebuilt)
    priced = [span for span in live if (span.attributes or {}).get(COST)]
    assert priced or not any(span.name.startswith("chat") and span.status.is_unset for span in live)
