"""Which server `connect` takes, and what it says when there is none."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.runtime import Runtime
from temporalio.service import GrpcCompression

from perdure.client.connection import (
    connect,
    connect_locally,
    is_on_this_machine,
)
from perdure.errors import ConfigurationError


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Temporal configuration, whatever the machine has."""
    for name in (
        "TEMPORAL_ADDRESS",
        "TEMPORAL_NAMESPACE",
        "TEMPORAL_API_KEY",
        "TEMPORAL_TLS",
        "TEMPORAL_PROFILE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nothing listens: bound, so that nobody else takes it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


async def test_the_address_comes_from_the_environment(
    client: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    connected = await connect()
    assert connected.service_client.config.target_host == address
    assert connected.namespace == "default"


async def test_the_address_comes_from_temporal_toml(address: str, tmp_path: Path) -> None:
    (tmp_path / "temporal.toml").write_text(
        f'[profile.default]\naddress = "{address}"\nnamespace = "elsewhere"\n'
    )
    connected = await connect()
    assert connected.service_client.config.target_host == address
    assert connected.namespace == "elsewhere"


async def test_arguments_win_over_the_environment(
    address: str, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{closed_port}")
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "from-the-environment")
    connected = await connect(address, namespace="given")
    assert connected.service_client.config.target_host == address
    assert connected.namespace == "given"


async def test_messages_to_this_machine_are_not_compressed_unless_told_so(address: str) -> None:
    assert (await connect(address)).service_client.config.grpc_compression == GrpcCompression.NONE
    told = await connect(address, grpc_compression=GrpcCompression.GZIP)
    assert told.service_client.config.grpc_compression == GrpcCompression.GZIP


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("[::1]", True),
        ("192.168.1.5", False),
        ("0.0.0.0", False),
        ("localhost.example.com", False),
        ("temporal", False),
    ],
)
def test_only_loopback_is_this_machine(host: str, is_here: bool) -> None:
    assert is_on_this_machine(f"{host}:7233") is is_here


async def test_an_unreachable_server_is_named_with_what_to_type(closed_port: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await connect(f"127.0.0.1:{closed_port}")
    message = str(caught.value)
    assert f"'127.0.0.1:{closed_port}' (connection refused)" in message
    assert "`perdure dev`" in message
    assert "TEMPORAL_ADDRESS=" in message


async def test_a_broken_configuration_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "temporal.toml").write_text("this is not TOML")
    with pytest.raises(ConfigurationError, match="environment configuration"):
        await connect()


async def test_connecting_leaves_the_runtime_of_the_process(address: str) -> None:
    """It has the metrics and the log of whoever has made it."""
    before = Runtime.default()
    await connect_locally(address)
    assert Runtime.default() is before
