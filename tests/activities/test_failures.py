"""How errors leave an activity: typed, and retried only where the platform broke something."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from perdure.activities.failures import superseded, typed_failures
from perdure.conversation import DigestMismatchError
from perdure.errors import ConfigurationError, InvokerError, ModelError, PayloadTooLargeError
from perdure.protocol import activities


def leaving(error: Exception) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught, typed_failures():
        raise error
    return caught.value


def test_a_model_error_carries_what_the_loop_decides_by() -> None:
    error = leaving(
        ModelError(
            "slow down",
            kind="rate_limit",
            provider="openai",
            status=429,
            request_id="r1",
            retry_after=2.5,
        )
    )
    assert (error.type, error.message, error.non_retryable) == (
        activities.MODEL_ERROR,
        "slow down",
        True,
    )
    assert error.details == (
        activities.ModelFailure(
            kind="rate_limit", provider="openai", status=429, request_id="r1", retry_after=2.5
        ),
    )
    assert error.category == ApplicationErrorCategory.BENIGN
    assert error.cause is None


@pytest.mark.parametrize(
    ("error", "type"),
    [
        (ConfigurationError("no key"), activities.CONFIGURATION_ERROR),
        (InvokerError("no provider"), activities.CONFIGURATION_ERROR),
        (PayloadTooLargeError("too large"), "payload_too_large"),
        (KeyError("bug"), activities.INTERNAL_ERROR),
    ],
)
def test_what_another_attempt_would_not_cure_is_not_retried(error: Exception, type: str) -> None:
    assert (leaving(error).type, leaving(error).non_retryable) == (type, True)


@pytest.mark.parametrize(
    "error", [RPCError("away", RPCStatusCode.UNAVAILABLE, b""), DigestMismatchError("behind")]
)
def test_what_the_platform_broke_is_left_to_be_retried(error: Exception) -> None:
    with pytest.raises(type(error)), typed_failures():
        raise error


@pytest.mark.parametrize(
    ("details", "expected"),
    [({"worker_shutdown": True}, True), ({"cancel_requested": True}, False)],
)
async def test_another_attempt_continues_a_call_whose_worker_shuts_down(
    details: dict[str, bool], expected: bool
) -> None:
    environment, has_begun = ActivityEnvironment(), asyncio.Event()

    async def work() -> bool:
        with suppress(asyncio.CancelledError):
            has_begun.set()
            await asyncio.Event().wait()
        return await superseded()

    running = asyncio.create_task(environment.run(work))
    await has_begun.wait()
    environment.cancel(ActivityCancellationDetails(**details))
    assert await running == expected
