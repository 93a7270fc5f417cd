"""The compose file and the Dockerfile, as far as they can be checked without a container engine."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from perdure.client.server_settings import SERVER_SETTINGS
from perdure.errors import ConfigurationError
from perdure.gateway.identity import TokenFile
from perdure.json_types import JsonObject
from perdure.protocol import search_attributes

from ..support.command_line import Cli
from ..support.dev_server import free_port

ROOT = Path(__file__).parents[2]
COMPOSE: JsonObject = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_compose_file_meets_the_compose_specification() -> None:
    command = [
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "docker-compose.yml",
    ]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_services_wait_for_services_that_exist() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        for needed in service.get("depends_on", {}):
            assert needed in services, f"{name} waits for {needed}"


def test_what_is_published_is_so_on_loopback_only() -> None:
    published = {
        name: service["ports"]
        for name, service in COMPOSE["services"].items()
        if "ports" in service
    }
    assert set(published) == {"temporal", "ui", "codec-server", "gateway", "prometheus", "grafana"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_secrets_come_from_the_environment() -> None:
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|PWD|KEY|TOKEN", name):
                assert value is None or value.startswith(("${", "/run/secrets/")), (
                    f"{name} is written down"
                )


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
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert sorted(named.split(",")) == sorted(extras.keys() - {"local", "all"})


def test_the_gateway_knows_the_token_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(COMPOSE["configs"]["gateway-tokens"]["content"].replace("$$", "$"))
    gateway = COMPOSE["services"]["gateway"]
    assert gateway["configs"] == [
        {"source": "gateway-tokens", "target": option(gateway["command"], "--tokens")}
    ]
    monkeypatch.setenv("GATEWAY_TOKEN", "")
    with pytest.raises(ConfigurationError, match="at least 16"):
        TokenFile(file)
    monkeypatch.setenv("GATEWAY_TOKEN", "a-token-of-this-test")
    TokenFile(file)
    assert (ROOT / gateway["command"][0]).exists()


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


async def test_the_gateway_is_healthy_by_the_check_of_the_compose_file(
    cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text("tokens: [{token: a-token-of-this-test, name: olga}]")
    service = COMPOSE["services"]["gateway"]
    started = dict(zip(service["command"][1::2], service["command"][2::2], strict=True))
    metrics = f"127.0.0.1:{free_port()}"
    started |= {
        "--tokens": str(file),
        "--host": "127.0.0.1",
        "--port": "0",
        "--metrics-address": metrics,
    }
    agent = str(ROOT / service["command"][0])
    gateway = await cli.start(
        *service["entrypoint"][1:], agent, *(word for each in started.items() for word in each)
    )
    url = (await gateway.says("Gateway: ")).split()[1]
    [kind, *check] = service["healthcheck"]["test"]
    assert (kind, check[0]) == ("CMD", "python")
    check = [sys.executable, *(word.replace("http://127.0.0.1:8400", url) for word in check[1:])]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{url}/v1/models", timeout=30)
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as answer:
        assert "temporal_request" in answer.read().decode()
    assert (await gateway.finish(signal.SIGTERM)).code == 0
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1


async def test_the_worker_starts_with_the_command_of_the_compose_file(address: str) -> None:
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)[1])  # type: ignore[index]
    assert entry[0] == "perdure"
    arguments = [*entry[1:], *COMPOSE["services"]["worker"]["command"]]
    arguments = [
        argument.replace("0.0.0.0:9464", f"127.0.0.1:{free_port()}") for argument in arguments
    ]
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
