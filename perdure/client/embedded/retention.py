"""How long closed runs are kept: on the embedded server a year, or as `PERDURE_RETENTION_DAYS` says."""

from __future__ import annotations

import os
from datetime import timedelta

from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client

from ...errors import ConfigurationError

VARIABLE = "PERDURE_RETENTION_DAYS"
DEFAULT_DAYS = 365


async def keep_closed_runs(client: Client) -> None:
    """Let the namespace keep runs for so long once they have closed. Raises `ConfigurationError` for a bad setting."""
    config = NamespaceConfig()
    config.workflow_execution_retention_ttl.FromTimedelta(timedelta(days=retention_days()))
    await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace=client.namespace, config=config))


def retention_days() -> int:
    """The setting. Raises `ConfigurationError` when it is not a number of days."""
    text = os.environ.get(VARIABLE) or str(DEFAULT_DAYS)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 36_500:
        raise ConfigurationError(f"{VARIABLE}={text!r}: expected a number of days, from 1 to 36500")
    return int(text)


async def days_kept(client: Client) -> float:
    """How many days the namespace keeps a run once it has closed. Raises `RPCError` when it does not say."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    description = await client.workflow_service.describe_namespace(request)
    return description.config.workflow_execution_retention_ttl.ToTimedelta() / timedelta(days=1)
