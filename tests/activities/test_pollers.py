"""Who polls a queue, and which quota a refused request has met."""

from __future__ import annotations

import asyncio
import time

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.enums.v1 import ResourceExhaustedCause
from temporalio.api.errordetails.v1 import ResourceExhaustedFailure
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities.pollers import pollers, quota_of

from ..support.dev_server import SHORT_CONNECTIONS, server_in_memory


def refused(cause: ResourceExhaustedCause.ValueType, status: RPCStatusCode) -> RPCError:
    detail = AnyMessage()
    detail.Pack(ResourceExhaustedFailure(cause=cause))
    raw = GrpcStatus(code=status.value, message="namespace rate limit exceeded", details=[detail])
    return RPCError("namespace rate limit exceeded", status, raw.SerializeToString())


@pytest.mark.parametrize(
    ("cause", "status", "quota"),
    [
        ("RPS_LIMIT", RPCStatusCode.RESOURCE_EXHAUSTED, "RPS limit: namespace rate limit exceeded"),
        (
            "CONCURRENT_LIMIT",
            RPCStatusCode.RESOURCE_EXHAUSTED,
            "concurrent limit: namespace rate limit exceeded",
        ),
        ("BUSY_WORKFLOW", RPCStatusCode.RESOURCE_EXHAUSTED, ""),
        ("RPS_LIMIT", RPCStatusCode.UNAVAILABLE, ""),
    ],
)
def test_says_which_quota_is_used_up(cause: str, status: RPCStatusCode, quota: str) -> None:
    value = ResourceExhaustedCause.Value(f"RESOURCE_EXHAUSTED_CAUSE_{cause}")
    assert quota_of(refused(value, status)) == quota


async def test_who_polls_can_be_asked_while_the_server_closes_connections() -> None:
    asked = 0
    async with server_in_memory(*SHORT_CONNECTIONS, "frontend.namespaceRPS=100000") as server:
        end = time.monotonic() + 6

        async def ask() -> None:
            nonlocal asked
            while time.monotonic() < end:
                assert not await pollers(server.client, "nobody")
                asked += 1

        await asyncio.gather(*(ask() for _ in range(20)))
    assert asked > 100
