"""What is said of a person's decision, and of tools that wait for others than the run's workers."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse

from perdure.cli.lines import describe_decision
from perdure.client.connection import has_waited
from perdure.json_types import JsonObject


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"approved": True, "by": "ann"}, "pay approved by ann (claimed)"),
        (
            {"approved": True, "by": "ann, bob", "vouched": [{"name": "ann"}, {"name": "bob"}]},
            "pay approved by ann, bob",
        ),
        (
            {"approved": True, "by": "ann", "arguments": {"amount": 5}},
            'pay approved by ann (claimed) with {"amount": 5}',
        ),
        ({"approved": False, "by": None, "reason": "not today"}, "pay denied: not today"),
        ({"approved": True, "by": "ann", "answer": "Oslo"}, "pay answered by ann (claimed)"),
    ],
)
def test_a_decision(data: JsonObject, said: str) -> None:
    assert describe_decision({"name": "pay", "arguments": None, **data}) == said


@pytest.mark.parametrize(("type", "waits"), [("perdure.tool.pay", True), ("chargeCard", False)])
def test_an_activity_of_others_is_no_lack_of_a_worker(type: str, waits: bool) -> None:
    described = DescribeWorkflowExecutionResponse()
    pending = described.pending_activities.add(
        state=PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    )
    pending.activity_type.name = type
    pending.scheduled_time.FromSeconds(int(time.time()) - 60)
    run: Any = SimpleNamespace(raw_description=described)
    assert has_waited(run) is waits
