"""The server's dynamic configuration, as docker-compose.yml has it, and what tests add to it."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import yaml

from .home import HOME, NODE, ROOT, ClusterError

FILE = HOME / "dynamic.yaml"
FOR_TESTS = {
    "history.workflowIdReuseMinimalInterval": "0s",
    "system.namespaceMinRetentionLocal": "1s",
    "history.retentionTimerJitterDuration": "0s",
    "frontend.WorkflowTimeSkippingEnabled": True,
    "frontend.exposeAuthorizerErrors": True,
    "matching.wv.VersionDrainageStatusRefreshInterval": "5s",
    "matching.wv.VersionDrainageStatusVisibilityGracePeriod": "5s",
    "matching.numTaskqueueReadPartitions": 1,
    "matching.numTaskqueueWritePartitions": 1,
}
"""Ids are used again at once, retention and the time until a version is drained are short; order
and fairness hold for one partition.
"""


def compose() -> dict[str, Any]:
    """Read docker-compose.yml."""
    read: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return read


def write(*, for_tests: bool) -> None:
    """Write the file that each process reads every minute. Raises `ClusterError` if the server
    does not know a key, or refuses a value.
    """
    text = compose()["configs"]["dynamic-config"]["content"]
    if for_tests:
        text += yaml.safe_dump({key: [{"value": value}] for key, value in FOR_TESTS.items()})
    FILE.write_text(text)
    ended = subprocess.run([str(NODE), "check-dynamic", str(FILE)], capture_output=True, text=True)
    if ended.returncode:
        raise ClusterError(f"the server refuses its dynamic configuration: {ended.stderr}")


def compose_environment(password: str) -> dict[str, str]:
    """The environment of the service `temporal`, its variables replaced as Compose does."""
    values = {"POSTGRES_PASSWORD": password}

    def resolved(text: str) -> str:
        def value(found: re.Match[str]) -> str:
            name, _, default = found[1].partition(":")
            return values.get(name, default.lstrip("-?") if default[:1] == "-" else "")

        return re.sub(r"\$\{([^}]*)\}", value, text)

    given = compose()["services"]["temporal"]["environment"]
    return {name: resolved(str(value)) for name, value in given.items()}
