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
from .findings import Finding

MAX_CLOCK_SECONDS = 2.0
"""By which clocks may differ."""


async def examined_server(
    client: Client, clock: Callable[[], float]
) -> tuple[JsonObject, list[Finding]]:
    """Return what the server is, and what is wrong with it; `clock` is this machine's. Raises
    `RPCError`.
    """
    version = await _version(client)
    findings = [*_of_version(version)]
    hours = await retention_hours(client)
    if hours is None:
        findings.append(
            Finding(
                "no-namespace",
                "error",
                f"there is no namespace {client.namespace!r}",
                f"temporal operator namespace create --namespace {client.namespace} --retention "
                "720h",
            )
        )
    else:
        findings += [*short_retention(client.namespace, hours), *await _of_attributes(client)]
    ahead = await server_time(client, clock=clock) - clock() if hours is not None else 0.0
    if abs(ahead) > MAX_CLOCK_SECONDS:
        findings.append(wrong_clock("this machine's clock", -ahead))
    place = client.service_client.config.target_host
    about = {
        "address": place,
        "namespace": client.namespace,
        "version": version,
        "retentionHours": hours,
    }
    return {**about, "clockAheadSeconds": round(ahead, 3)}, findings


def wrong_clock(whose: str, ahead: float) -> Finding:
    """Return the finding of a clock that differs from the server's by so many seconds."""
    way = "ahead of" if ahead > 0 else "behind"
    text = (
        f"{whose} is {abs(ahead):.1f} s {way} the server's: ages, deadlines and time-outs are wrong"
    )
    return Finding(
        "clock",
        "warning",
        text,
        "set it: chronyc makestep, or timedatectl set-ntp true",
        {"ahead": ahead},
    )


async def _version(client: Client) -> str:
    try:
        return (
            await client.workflow_service.get_cluster_info(GetClusterInfoRequest(), retry=True)
        ).server_version
    except RPCError:
        # In a cluster with authorization, only an administrator may ask that.
        return (
            await client.workflow_service.get_system_info(GetSystemInfoRequest(), retry=True)
        ).server_version


def _of_version(version: str) -> Iterator[Finding]:
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers and numbers < MIN_SERVER:
        least = ".".join(map(str, MIN_SERVER))
        yield Finding(
            "old-server",
            "error",
            f"the server's version is {version}, perdure needs {least}",
            f"upgrade the server to {least} or newer, one minor version after the other",
            {"version": version},
        )


async def retention_hours(client: Client) -> float | None:
    """Return how long the namespace keeps closed runs; None where there is no such namespace.
    Raises `RPCError`.
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
        yield Finding(
            "short-retention",
            "warning",
            f"the namespace {namespace!r} keeps closed runs for {hours:g} h: after that, their "
            "results, conversations "
            "and traces are gone, and a caller that comes later finds nothing",
            f"temporal operator namespace update --namespace {namespace} --retention 720h",
            {"hours": hours},
        )


async def _of_attributes(client: Client) -> list[Finding]:
    try:
        found = await registration_of(client)
    except RPCError:
        return [
            Finding(
                "search-attributes-unknown",
                "warning",
                "the search attributes can't be listed with these rights",
            )
        ]
    missing = Finding(
        "search-attributes-missing",
        "error",
        f"the namespace {client.namespace!r} lacks the search attributes {', '.join(found.added)}: "
        "runs are not found "
        "by them, and do not say whether they wait",
        "perdure setup",
        {"names": found.added},
    )
    return [*([missing] if found.added else []), *wrong_types(client.namespace, found)]


def wrong_types(namespace: str, found: Registration) -> Iterator[Finding]:
    """Yield a finding for each search attribute that has another type."""
    expected = {key.name: type_name(int(key.indexed_value_type)) for key in search_attributes.ALL}
    for name, type in found.mismatched.items():
        yield Finding(
            "search-attribute-type",
            "error",
            f"{name} exists in the namespace {namespace!r} as {type}, expected {expected[name]}: "
            "runs leave it unset there",
            "If nothing else uses it, type: temporal operator search-attribute remove "
            f"--namespace {namespace} --name {name} --yes, and then again: perdure setup",
            {"name": name, "type": type, "expected": expected[name]},
        )
