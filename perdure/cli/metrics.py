"""The options of commands with a worker that serve its metrics."""

from __future__ import annotations

import typer


def chosen(port: int | None, address: str | None) -> str | None:
    """The `HOST:PORT` that the options name; None for no metrics. Raises `typer.BadParameter` for both options."""
    if port is not None and address is not None:
        text = "excludes --metrics-port, which names a port of 127.0.0.1"
        raise typer.BadParameter(text, param_hint="--metrics-address")
    return f"127.0.0.1:{port}" if port is not None else address
