"""Waits until a cluster serves, and makes what a new one lacks: namespaces, search attributes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError, EndpointConnectionError
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.service import (
    ConnectConfig,
    RPCError,
    RPCStatusCode,
    ServiceClient,
    TLSConfig,
)

from perdure.protocol import search_attributes

from .authority import NAME, NAMESPACES, Authority
from .home import LOGS, ClusterError
from .profiles import Profile
from .roles import BUCKET, SERVICES, STORE, Member

RETENTION_SECONDS = 3 * 24 * 3600


async def until_healthy(profile: Profile, all_of_them: list[Member], seconds: float) -> None:
    """Return when each process that reports its health is well. Raises `ClusterError`."""
    end = time.monotonic() + seconds
    # A history whose store fails now and then may never report that it has all of its shards.
    asked = [role for role in SERVICES if not (profile.faults and role == "history")]
    waiting = [member for member in all_of_them if member.role in asked]
    while waiting := [each for each in waiting if not await is_healthy(profile, each)]:
        if time.monotonic() > end:
            names = ", ".join(member.name for member in waiting)
            raise ClusterError(f"{names}: not well after {seconds:g} s; the logs are in {LOGS}")
        await asyncio.sleep(0.2)


async def is_healthy(profile: Profile, member: Member) -> bool:
    """Ask one process, whatever the balancer does."""
    try:
        client = await asyncio.wait_for(ServiceClient.connect(_config(profile, member)), 2)
        return await client.check_health(
            service=SERVICES[member.role], timeout=timedelta(seconds=2)
        )
    except (RPCError, RuntimeError, TimeoutError):
        return False


def _config(profile: Profile, member: Member) -> ConnectConfig:
    """As another process of the cluster, or for a frontend as an administrator."""
    if not profile.tls:
        return ConnectConfig(target_host=member.address)
    authority = Authority()
    tls = TLSConfig(
        server_root_ca_cert=Path(authority.path("ca.pem")).read_bytes(),
        client_cert=Path(authority.path("server.pem")).read_bytes(),
        client_private_key=Path(authority.path("server.key")).read_bytes(),
        domain=NAME,
    )
    key = authority.token("admin") if profile.jwt and member.role == "frontend" else None
    return ConnectConfig(target_host=member.address, tls=tls, api_key=key)


async def prepare_namespaces(profile: Profile, all_of_them: list[Member]) -> None:
    """Make the namespaces and their search attributes, which takes some seconds to be seen."""
    frontend = next(member for member in all_of_them if member.role == "frontend")
    client = await ServiceClient.connect(_config(profile, frontend))
    for namespace in NAMESPACES:
        request = RegisterNamespaceRequest(namespace=namespace)
        request.workflow_execution_retention_period.CopyFrom(Duration(seconds=RETENTION_SECONDS))
        await _make(client.workflow_service.register_namespace, request)
    for namespace in NAMESPACES:
        added = AddSearchAttributesRequest(namespace=namespace)
        for key in search_attributes.ALL:
            added.search_attributes[key.name] = IndexedValueType.ValueType(key.indexed_value_type)
        await _make(client.operator_service.add_search_attributes, added)
    await asyncio.to_thread(_make_bucket)
    await asyncio.sleep(3)  # The caches of each process take the attributes within 2 s.


async def _make(call: Callable[..., Awaitable[Any]], request: Any) -> None:
    """A new namespace is not known everywhere at once, and what is there is fine."""
    end = time.monotonic() + 20
    while True:
        try:
            await call(request, timeout=timedelta(seconds=10))
            return
        except RPCError as error:
            if error.status is RPCStatusCode.ALREADY_EXISTS:
                return
            if time.monotonic() > end:
                raise
        await asyncio.sleep(0.3)


def _make_bucket() -> None:
    made = boto3.client(
        "s3",
        endpoint_url=f"http://{STORE}",
        region_name="eu-central-1",
        aws_access_key_id="cluster",
        aws_secret_access_key="cluster",
    )
    for _ in range(100):
        try:
            made.create_bucket(
                Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
            )
            return
        except EndpointConnectionError:
            time.sleep(0.3)
        except ClientError as error:
            if "BucketAlreadyOwnedByYou" in str(error):
                return
            raise
    raise ClusterError(f"the store at {STORE} does not answer: see its log in {LOGS}")
