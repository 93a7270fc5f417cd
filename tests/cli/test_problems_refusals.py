"""What a person reads when the Temporal server refuses a request: by the command line and a
gateway.
"""

from __future__ import annotations

import pytest
from temporalio.api.workflowservice.v1 import CountWorkflowExecutionsRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.cli.problems import FAILED, explain
from perdure.gateway.problems import problem_of

from ..support.refusing_server import refusing_server

QUOTA = "namespace rate limit exceeded"
REFUSALS = {
    RPCStatusCode.PERMISSION_DENIED: (503, "Request unauthorized.", "TEMPORAL_API_KEY", "`write`"),
    RPCStatusCode.UNAUTHENTICATED: (503, "no credentials", "set TEMPORAL_API_KEY", ""),
    RPCStatusCode.RESOURCE_EXHAUSTED: (429, QUOTA, "repeat this later", "raise the limit"),
    RPCStatusCode.DEADLINE_EXCEEDED: (503, "too slow", "`perdure ls`", "with the same id"),
    RPCStatusCode.UNAVAILABLE: (503, "not enough hosts", "Repeat this then", "runs are safe"),
    RPCStatusCode.INTERNAL: (503, "broken", "", ""),
}


@pytest.mark.parametrize("status", REFUSALS, ids=lambda status: status.name)
async def test_a_refusal_is_a_sentence_with_a_remedy(status: RPCStatusCode) -> None:
    http_status, message, *remedies = REFUSALS[status]
    async with refusing_server(int(status), message) as address:
        client = await Client.connect(address)
        with pytest.raises(RPCError) as raised:
            await client.workflow_service.count_workflow_executions(
                CountWorkflowExecutionsRequest(), retry=False
            )
    explanation = explain(raised.value)
    assert explanation
    assert explanation.exit_code == FAILED
    assert explanation.text.startswith(f"Temporal: {message} ({status.name}); ")
    assert all(part in explanation.text for part in remedies)
    problem = problem_of(raised.value)
    assert problem
    assert (problem.status, problem.kind) == (http_status, f"temporal_{status.name.lower()}")
    assert message in str(problem)
    if status is not RPCStatusCode.UNAVAILABLE:
        assert all(part in str(problem) for part in remedies)
