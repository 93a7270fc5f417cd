"""The compose file and the Dockerfile, as far as they can be checked without a container engine."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from perdure.client.server_settings import SERVER_SETTINGS
from perdure.protocol import search_attributes

from ..support.dev_server import free_port

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


def test_what_is_published_is_so_on_loopback_only() -> None:
    published = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
    assert set(published) == {"temporal", "ui", "codec-server", "prometheus", "grafana"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_secrets_come_from_the_environment() -> None:
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|PWD|KEY|TOKEN", name):
                assert value is None or value.startswith(("${", "/run/secrets/")), f"{name} is written down"


def test_the_namespace_gets_the_search_attributes() -> None:
    script = COMPOSE["configs"]["namespace"]["content"]
    for key in search_attributes.ALL:
        kind = key.indexed_value_type.name.title()
        assert f"--name {key.name} --type {kind}" in script


def test_the_worker_does_not_run_as_root() -> None:
    assert "\nUSER perdure\n" in DOCKERFILE


def test_the_server_gets_the_settings_that_perdure_needs() -> None:
    given = yaml.safe_load(COMPOSE["configs"]["dynamic-config"]["content"])
    assert given == {setting.key: [{"value": setting.value}] for setting in SERVER_SETTINGS}


def test_every_service_has_bounds_for_its_memory_and_its_log() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["logging"]["options"]["max-size"], name
        if name != "perdure":
            assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}, name


def test_files_and_configs_that_services_name_are_there() -> None:
    configs = COMPOSE["configs"]
    for service in COMPOSE["services"].values():
        assert {config["source"] for config in service.get("configs", ())} <= configs.keys()
    assert all((ROOT / config["file"]).exists() for config in configs.values() if "file" in config)
    for config in ("prometheus", "grafana-prometheus", "grafana-dashboards"):
        assert yaml.safe_load(configs[config]["content"])


def test_the_image_has_every_extra_but_the_embedded_server() -> None:
    [named] = re.findall(r"^ARG EXTRAS=(.*)$", DOCKERFILE, re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(named.split(",")) == sorted(extras.keys() - {"local", "all"})


async def test_the_worker_starts_with_the_command_of_the_compose_file(address: str) -> None:
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)[1])  # type: ignore[index]
    assert entry[0] == "perdure"
    arguments = [*entry[1:], *COMPOSE["services"]["worker"]["command"]]
    arguments = [argument.replace("0.0.0.0:9464", f"127.0.0.1:{free_port()}") for argument in arguments]
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
