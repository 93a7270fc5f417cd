"""The compose file and the Dockerfile, as far as they can be checked without a container engine."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from perdure.protocol import search_attributes

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_compose_file_meets_the_compose_specification() -> None:
    command = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_services_wait_for_services_that_exist() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        for needed in service.get("depends_on", {}):
            assert needed in services, f"{name} waits for {needed}"


def test_only_the_ui_and_the_frontend_are_published_and_on_loopback() -> None:
    published = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
    assert set(published) == {"temporal", "ui"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_secrets_come_from_the_environment() -> None:
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|PWD|KEY", name):
                assert value is None or value.startswith("${"), f"{name} is written down"


def test_the_namespace_gets_the_search_attributes() -> None:
    script = COMPOSE["configs"]["namespace"]["content"]
    for key in search_attributes.ALL:
        kind = key.indexed_value_type.name.title()
        assert f"--name {key.name} --type {kind}" in script


def test_the_worker_does_not_run_as_root() -> None:
    assert "\nUSER perdure\n" in DOCKERFILE


async def test_the_worker_starts_with_the_command_of_the_compose_file(address: str) -> None:
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)[1])  # type: ignore[index]
    assert entry[0] == "perdure"
    arguments = [*entry[1:], *COMPOSE["services"]["worker"]["command"]]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "perdure.cli", "--address", address, *arguments),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stderr
    first = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
    process.terminate()
    await process.communicate()
    assert "task queue 'perdure', tools: list_files, search_text, read_file" in first
    assert process.returncode == 0
