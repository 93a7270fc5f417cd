"""Absurd numbers in what is said of a tool: they are refused where they are written, and end no run
and hang none.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from perdure import tool
from perdure.declared_tools import ToolPolicy
from perdure.errors import ConfigurationError
from perdure.tools.foreign import ActivityOptions

TOO_SHORT_OR_LONG = [0, -1, 1e-9, 1e10, 1e300, math.inf, math.nan]


@pytest.mark.parametrize("seconds", TOO_SHORT_OR_LONG)
@pytest.mark.parametrize("name", ["timeout", "approval_timeout"])
def test_time_outs_that_temporal_can_not_time(name: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=r"0\.001|315360000"):
        ToolPolicy.model_validate({name: seconds})
    with pytest.raises(
        ConfigurationError, match=rf"{name} is .*: expected seconds, from 0\.001 to 315,360,000"
    ):
        tool(name="work", **{name: seconds})(lambda: "ok")


@pytest.mark.parametrize("seconds", [*TOO_SHORT_OR_LONG, "0.5ms", "99999d"])
@pytest.mark.parametrize(
    "name", ["scheduleToStartTimeout", "startToCloseTimeout", "heartbeatTimeout"]
)
def test_time_outs_of_activities_of_others(name: str, seconds: Any) -> None:
    """Less than a microsecond would be no time-out at all: a call would wait for ever for a
    worker.
    """
    with pytest.raises(ValueError, match=r"from 0\.001 s to ten years"):
        ActivityOptions.model_validate({"activity": "work", "taskQueue": "queue", name: seconds})
