"""The torture table: one file for each server, as strict as the real one is reported to be."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .strict import StrictServer

_SHARED = ("strict", "wires")


def _server_in(module: str) -> type[StrictServer]:
    found = import_module(f"{__name__}.{module}")
    [server] = (
        each
        for each in vars(found).values()
        if isinstance(each, type)
        and issubclass(each, StrictServer)
        and each.__module__ == found.__name__
    )
    return server


SERVERS = [
    _server_in(module.name) for module in iter_modules(__path__) if module.name not in _SHARED
]
