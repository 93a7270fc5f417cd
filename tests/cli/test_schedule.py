"""`perdure schedule`."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest

from perdure.cli.problems import UsageProblem
from perdure.cli.schedule import _interval

from ..support.command_line import Cli


async def test_a_schedule_is_made_and_deleted(cli: Cli) -> None:
    name = f"weekly-{uuid.uuid4()}"
    options = (
        "--cron",
        "0 7 * * 1",
        "--timezone",
        "Europe/Berlin",
        "--paused",
        "--task-queue",
        name,
        "--json",
    )
    made = await cli("schedule", "create", name, *options, "ages.prompty", "--input", "person=Ann")
    assert made.code == 0, made.stderr
    shown = json.loads(made.stdout)
    assert (shown["agent"], shown["cron"], shown["paused"]) == ("ages", ["0 7 * * 1"], True)
    assert f"perdure worker --task-queue {name}" in made.stderr
    deleted = await cli("schedule", "delete", name)
    assert deleted.code == 0, deleted.stderr


def test_intervals() -> None:
    assert _interval("1h30m") == timedelta(minutes=90)
    assert _interval(None) is None
    for wrong in ("", "1", "h", "1 h", "0s", "-1h", "9999999999w"):
        with pytest.raises(UsageProblem, match="--every"):
            _interval(wrong)
