"""Tells a folder's server from any other one that may answer at its address."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from temporalio.api.workflowservice.v1 import GetClusterInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from ...errors import ConfigurationError
from ..connection import connect_locally
from .state import database_of


async def serves(folder: Path, address: str) -> bool:
    """Whether the server at `address` has the folder's database; False, too, when none answers there."""
    try:
        return await has_database(await connect_locally(address), database_of(folder))
    except ConfigurationError:
        return False


async def has_database(client: Client, database: Path) -> bool:
    """Whether it is this database that the client's server has: both know the cluster's id."""
    try:
        info = await client.workflow_service.get_cluster_info(GetClusterInfoRequest())
    except RPCError:
        return False
    return bool(info.cluster_id) and info.cluster_id.encode() in _cluster_records(database)


def _cluster_records(database: Path) -> bytes:
    """What Temporal has written about the cluster; nothing where it has not written it yet."""
    try:
        connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return b""
    try:
        rows = connection.execute("SELECT data FROM cluster_metadata_info").fetchall()
    except sqlite3.Error:
        return b""
    finally:
        connection.close()
    return b"".join(bytes(data) for (data,) in rows)
