"""Which quota a refused request has met."""

from __future__ import annotations

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.enums.v1 import ResourceExhaustedCause
from temporalio.api.errordetails.v1 import ResourceExhaustedFailure
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities.pollers import quota_of


def refused(cause: ResourceExhaustedCause.ValueType, status: RPCStatusCode) -> RPCError:
    detail = AnyMessage()
    detail.Pack(ResourceExhaustedFailure(cause=cause))
    raw = GrpcStatus(code=status.value, message="namespace rate limit exceeded", details=[detail])
    return RPCError("namespace rate limit exceeded", status, raw.SerializeToString())


@pytest.mark.parametrize(
    ("cause", "status", "quota"),
    [
        ("RPS_LIMIT", RPCStatusCode.RESOURCE_EXHAUSTED, "RPS limit: namespace rate limit exceeded"),
        ("CONCURRENT_LIMIT", RPCStatusCode.RESOURCE_EXHAUSTED, "concurrent limit: namespace rate limit exceeded"),
        ("BUSY_WORKFLOW", RPCStatusCode.RESOURCE_EXHAUSTED, ""),
        ("RPS_LIMIT", RPCStatusCode.UNAVAILABLE, ""),
    ],
)
def test_says_which_quota_is_used_up(cause: str, status: RPCStatusCode, quota: str) -> None:
    value = ResourceExhaustedCause.Value(f"RESOURCE_EXHAUSTED_CAUSE_{cause}")
    assert quota_of(refused(value, status)) == quota
