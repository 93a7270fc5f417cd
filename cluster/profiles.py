"""The kinds of clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .home import ClusterError

FAULTS = Path(__file__).parent / "faults.yaml"


@dataclass(frozen=True)
class Profile:
    """What a cluster has beside its roles."""

    tls: bool = False
    """Between all processes, with client certificates."""
    jwt: bool = False
    """Temporal's authorizer: what a client may do is in its token."""
    faults: Path | None = None
    """The file with the failures of the database that each process makes up."""
    whole: bool = False
    """One process with the environment of `docker-compose.yml`."""


PROFILES = {
    "plain": Profile(),
    "tls": Profile(tls=True),
    "jwt": Profile(tls=True, jwt=True),
    "faults": Profile(faults=FAULTS),
    "compose": Profile(whole=True),
}


def profile(name: str) -> Profile:
    """Raises `ClusterError` for an unknown name."""
    if name not in PROFILES:
        raise ClusterError(f"{name!r} is not a profile: expected one of {', '.join(PROFILES)}")
    return PROFILES[name]
