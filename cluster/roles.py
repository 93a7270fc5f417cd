"""The processes of a cluster: where each listens, and how its environment configures it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from . import database, dynamic
from .authority import Authority
from .home import HOME, LOGS, NODE
from .profiles import Profile

PORTS = {"frontend": 7233, "history": 7234, "matching": 7235, "internal-frontend": 7236}
PORTS["worker"] = 7239
FIRST = {"frontend": 11, "history": 21, "matching": 31, "internal-frontend": 41, "worker": 51}
"""Role → the last byte of the loopback address of its first process."""
SERVICES = {
    "frontend": "temporal.api.workflowservice.v1.WorkflowService",
    "history": "temporal.api.workflowservice.v1.HistoryService",
    "matching": "temporal.api.workflowservice.v1.MatchingService",
}
"""Role → the service whose health its process reports."""
BALANCER, BALANCER_CONTROL = "127.0.0.10:7233", HOME / "balancer"
STORE = "127.0.0.10:9000"
BUCKET = "values"


@dataclass(frozen=True)
class Member:
    """One process of the cluster."""

    name: str
    """Such as `history-2`; of all, unique."""
    command: tuple[str, ...]
    environment: dict[str, str]
    user: str | None = None
    host: str = ""
    role: str = ""

    @property
    def address(self) -> str:
        """Its gRPC address; empty where it has none."""
        return f"{self.host}:{PORTS[self.role]}" if self.role in PORTS else ""

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"


def members(profile: Profile) -> list[Member]:
    """Every process of Temporal's, in the order in which they may start."""
    if profile.whole:
        return [_member(profile, "all", 1, "127.0.0.11", ("history", "matching", "worker"))]
    counts = {"history": 2, "matching": 2, "frontend": 2, "worker": 1}
    if profile.jwt:
        counts["internal-frontend"] = 1
    return [
        _member(profile, role, number, f"127.0.0.{FIRST[role] + number - 1}")
        for role, count in counts.items()
        for number in range(1, count + 1)
    ]


def _member(
    profile: Profile, role: str, number: int, host: str, more: tuple[str, ...] = ()
) -> Member:
    roles = ("frontend", *more) if more else (role,)
    return Member(
        name=f"{role}-{number}",
        command=(str(NODE), "serve", *roles),
        environment=_environment(profile, host),
        host=host,
        role="frontend" if more else role,
    )


def _environment(profile: Profile, host: str) -> dict[str, str]:
    given = {
        "DB": "postgres12",
        "POSTGRES_SEEDS": "127.0.0.1",
        "DB_PORT": str(database.PORT),
        "POSTGRES_USER": "temporal",
        "POSTGRES_PWD": database.password(),
        "NUM_HISTORY_SHARDS": "64",
        "LOG_LEVEL": "warn",
        "DYNAMIC_CONFIG_FILE_PATH": str(dynamic.FILE),
        "CLUSTER_RPC_ADDRESS": "127.0.0.11:7233",
        "CLUSTER_HTTP_ADDRESS": "127.0.0.11:7243",
        "BIND_ON_IP": host,
        "PROMETHEUS_ENDPOINT": f"{host}:9090",
    }
    if profile.whole:
        given |= dynamic.compose_environment(database.password())
        # What a container has for itself: the whole machine, and the name of the database's host.
        given |= {"BIND_ON_IP": host, "PROMETHEUS_ENDPOINT": f"{host}:9090"}
        given |= {"POSTGRES_SEEDS": "127.0.0.1", "DB_PORT": str(database.PORT)}
        given |= {"DYNAMIC_CONFIG_FILE_PATH": str(dynamic.FILE)}
    if profile.tls:
        given |= Authority().server_environment()
    if profile.jwt:
        given |= Authority().token_environment()
        given["USE_INTERNAL_FRONTEND"] = "1"
    if profile.faults:
        given["CLUSTER_FAULTS"] = str(profile.faults)
    return {"PATH": os.environ["PATH"], "HOME": str(HOME), **given}


def balancer(backends: list[Member]) -> Member:
    """The address that clients have: it shares connections between the frontends, and makes the
    faults of a network.
    """
    addresses = [member.address for member in backends if member.role == "frontend"]
    command = (str(NODE), "balance", BALANCER, str(BALANCER_CONTROL), *addresses)
    return Member("balancer-1", command, {})
