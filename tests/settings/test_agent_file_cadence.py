"""How often a run tells that it is alive, and what it says: by options, variables, or the server's
address.
"""

from __future__ import annotations

import pytest

from perdure import ConfigurationError, RunOptions
from perdure.options import (
    CLOUD_INTERVALS,
    OWN_SERVER_INTERVALS,
    HeartbeatIntervals,
    heartbeat_intervals,
)
from perdure.settings.agent_file import with_cadence

OWN, CLOUD = "localhost:7233", "shop.a1b2c.tmprl.cloud:7233"
BY_REGION = "eu-central-1.aws.api.temporal.io:7233"


@pytest.mark.parametrize(
    ("target", "cadence"),
    [
        (OWN, OWN_SERVER_INTERVALS),
        (CLOUD, CLOUD_INTERVALS),
        (BY_REGION, CLOUD_INTERVALS),
        ("tmprl.cloud.example:1", OWN_SERVER_INTERVALS),
    ],
)
def test_the_address_decides_what_nothing_else_says(
    target: str, cadence: HeartbeatIntervals
) -> None:
    assert heartbeat_intervals(with_cadence(RunOptions(), target, {})) == cadence


def test_options_come_before_variables_and_those_before_the_address() -> None:
    variables = {"PERDURE_LOST_WORKER_SECONDS": "60", "PERDURE_STREAM_SECONDS": "2"}
    options = with_cadence(RunOptions(stream_seconds=0.5), CLOUD, variables)
    assert heartbeat_intervals(options) == (60, 0.5)


def test_nothing_is_recorded_of_a_run_on_a_server_of_ones_own() -> None:
    assert "seconds" not in with_cadence(RunOptions(), OWN, {}).model_dump_json(
        include={*HeartbeatIntervals._fields}
    )


@pytest.mark.parametrize("value", ["soon", "0", "1e9"])
def test_a_variable_that_is_no_such_time_is_named(value: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"PERDURE_LOST_WORKER_SECONDS='{value}': .*give a number of seconds",
    ):
        with_cadence(RunOptions(), OWN, {"PERDURE_LOST_WORKER_SECONDS": value})
