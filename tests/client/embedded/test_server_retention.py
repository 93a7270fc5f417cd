"""The embedded server keeps closed runs for a year; who looks for one that is gone is told why."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest

from perdure.client.embedded.server import LocalServer, retention_days
from perdure.errors import ConfigurationError


async def test_closed_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert retention_days() == 365
    monkeypatch.setenv("PERDURE_RETENTION_DAYS", "7")
    async with LocalServer(tmp_path) as server:
        client = await server.connect()
        found = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace="default")
        )
    assert found.config.workflow_execution_retention_ttl.ToTimedelta().days == 7


@pytest.mark.parametrize("setting", ["0", "a year", "-1", "99999999", "²"])
def test_a_setting_that_cannot_be(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv("PERDURE_RETENTION_DAYS", setting)
    with pytest.raises(ConfigurationError, match="expected a number of days, from 1 to 36500"):
        retention_days()
