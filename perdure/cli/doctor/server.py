"""Examines a server: its version, the namespace, search attributes, its clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetClusterInfoRequest,
    GetSystemInfoRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ...client.connection import Registration, registration_of, server_time, type_name
from ...client.server_settings import MIN_RETENTION_HOURS, MIN_SERVER
from ...json_types import JsonObject
from ...protocol import search_attributes
from .findings import Finding, finding

MAX_CLOCK_SECONDS = 2.0
"""By which clocks may differ."""


async def examined_server(
    client: Client, clock: Callable[[], float]
) -> tuple[JsonObject, list[Finding]]:
    """Return the server's properties and faults; `clock` is this machine's. Raises `RPCError`."""
    version, namespace = await _version(client), client.namespace
    findings = [*of_version(version)]
    hours, ahead = await retention_hours(client), 0.0
    if hours is None:
        findings.append(finding("no-namespace", namespace=namespace))
    else:
        ahead = await server_time(client, clock=clock) - clock()
        findings += [
            *short_retention(namespace, hours),
            *await _of_attributes(client),
            *wrong_clock("this machine's clock", -ahead, MAX_CLOCK_SECONDS),
        ]
    about = {
        "address": client.service_client.config.target_host,
        "namespace": namespace,
        "version": version,
        "retentionHours": hours,
        "clockAheadSeconds": round(ahead, 3),
    }
    return about, findings


def wrong_clock(whose: str, ahead: float, most: float) -> Iterator[Finding]:
    """Yield the finding of a clock that differs from the server's by more than `most` seconds."""
    if abs(ahead) > most:
        way, seconds = "ahead of" if ahead > 0 else "behind", f"{abs(ahead):.1f}"
        yield finding("clock", whose=whose, ahead=ahead, way=way, seconds=seconds)


async def _version(client: Client) -> str:
    service = client.workflow_service
    try:
        return (await service.get_cluster_info(GetClusterInfoRequest(), retry=True)).server_version
    except RPCError:
        # In a cluster with authorization, only an administrator may ask that.
        return (await service.get_system_info(GetSystemInfoRequest(), retry=True)).server_version


def of_version(version: str) -> Iterator[Finding]:
    """Yield the finding of a server that is too old."""
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers and numbers < MIN_SERVER:
        yield finding("old-server", version=version, least=".".join(map(str, MIN_SERVER)))


async def retention_hours(client: Client) -> float | None:
    """Return the hours for which the namespace keeps closed runs; None if there is no such
    namespace. Raises `RPCError`.
    """
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        described = await client.workflow_service.describe_namespace(request, retry=True)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return described.config.workflow_execution_retention_ttl.ToTimedelta().total_seconds() / 3600


def short_retention(namespace: str, hours: float) -> Iterator[Finding]:
    """Yield the finding of a namespace that keeps closed runs for too short a time."""
    if hours < MIN_RETENTION_HOURS:
        yield finding("short-retention", namespace=namespace, hours=hours)


async def _of_attributes(client: Client) -> list[Finding]:
    try:
        found = await registration_of(client)
    except RPCError:
        return [finding("search-attributes-unknown")]
    names, namespace = ", ".join(found.added), client.namespace
    missing = finding("search-attributes-missing", namespace=namespace, names=names)
    return [*([missing] if names else []), *wrong_types(namespace, found)]


def wrong_types(namespace: str, found: Registration) -> Iterator[Finding]:
    """Yield a finding for each search attribute that has another type."""
    expected = {key.name: type_name(int(key.indexed_value_type)) for key in search_attributes.ALL}
    for name, type in found.mismatched.items():
        yield finding(
            "search-attribute-type",
            namespace=namespace,
            name=name,
            type=type,
            expected=expected[name],
        )
