"""Connects to the Temporal server that the arguments or Temporal's own environment configuration name."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import GrpcCompression

from ..errors import ConfigurationError
from ..payloads.converter import converter_from_environment
from .embedded.state import use_running

DEFAULT_ADDRESS = "localhost:7233"
CONNECT_SECONDS = 5.0
"""A server that has not answered within these seconds counts as unreachable."""


async def connect(address: str | None = None, *, namespace: str | None = None, **options: Any) -> Client:
    """Connect to Temporal. Raises `ConfigurationError` within a few seconds when that fails.

    What the arguments leave open comes from `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`,
    `TEMPORAL_TLS…` and the profile of `temporal.toml`. Where those name no server it is the embedded one, if that runs
    for the data folder (`PERDURE_HOME`), else `localhost:7233`; the namespace is `default`.

    `PERDURE_STORAGE` says where values go that are too large for Temporal (see `perdure.payloads.storage`).
    `options` are passed to `temporalio.client.Client.connect`; messages to a server on this machine are not compressed
    unless `grpc_compression` says so.
    """
    given = {"target_host": address, "namespace": namespace}
    settings = {**_environment(), **{name: value for name, value in given.items() if value}, **options}
    if "target_host" not in settings:
        settings["target_host"] = use_running() or DEFAULT_ADDRESS
    return await _open(**settings)


async def connect_locally(address: str) -> Client:
    """Connect to the embedded server at `address`, ignoring the environment. Raises like `connect`."""
    return await _open(target_host=address)


def environment_names_a_server() -> bool:
    """Whether `TEMPORAL_ADDRESS` or `temporal.toml` gives an address. Raises `ConfigurationError` on a broken file."""
    return "target_host" in _environment()


async def _open(*, target_host: str, **settings: Any) -> Client:
    if "data_converter" not in settings:
        settings["data_converter"] = converter_from_environment()
    if "grpc_compression" not in settings and is_on_this_machine(target_host):
        settings["grpc_compression"] = GrpcCompression.NONE
    try:
        return await asyncio.wait_for(Client.connect(target_host, **settings), CONNECT_SECONDS)
    except TimeoutError as error:
        raise _unreachable(target_host, f"no answer within {CONNECT_SECONDS:g} s") from error
    except (RuntimeError, ValueError) as error:
        raise _unreachable(target_host, str(error)) from error


def is_on_this_machine(target_host: str) -> bool:
    """Whether `host:port` is a loopback address."""
    host = target_host.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _environment() -> dict[str, Any]:
    try:
        return dict(ClientConfig.load_client_connect_config())
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"Temporal's environment configuration can't be read: {error}. Expected a temporal.toml (its path may "
            "be in TEMPORAL_CONFIG_FILE) with the profile that TEMPORAL_PROFILE names; correct it or unset those "
            "variables."
        ) from error


def _unreachable(target: str, reason: str) -> ConfigurationError:
    if "Unauthenticated" in reason or "PermissionDenied" in reason:
        return ConfigurationError(
            f"The Temporal server at {target!r} refused the connection: {_short(reason)}. Expected valid credentials: "
            "set TEMPORAL_API_KEY, or TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH."
        )
    return ConfigurationError(
        f"No Temporal server reachable at {target!r} ({_short(reason)}). Expected a running server at host:port: "
        "start one with `perdure dev`, or name another with TEMPORAL_ADDRESS=host:port."
    )


def _short(reason: str) -> str:
    """The part of the SDK's connection error that says what happened."""
    known = {
        "Connection refused": "connection refused",
        "failed to lookup address": "unknown host name",
        "invalid target URL": "not a host:port",
    }
    return next((text for part, text in known.items() if part in reason), reason)
