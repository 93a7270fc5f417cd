"""Other systems whose names for settings agents' files may use, in `metadata.NAME`;
`perdure.interop` implements them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, cast

from ..json_types import JsonObject, JsonView
from .values import Place, Settings

Reader = Callable[[Any, Place], None]


class System(ABC):
    """One other system."""

    title: ClassVar[str]
    """Its name for people."""
    usual: ClassVar[JsonView]
    """The default options of its agents' runs."""
    has_peers: ClassVar[bool] = False
    """Whether its agents delegate to others that the environment names."""

    @abstractmethod
    def readers(self, settings: Settings) -> dict[str, Reader]:
        """Return a reader for each of its settings, by name, which writes into `settings`."""

    def options(self, environment: Mapping[str, str]) -> JsonObject:
        """Return the options that the environment sets. Raises ValueError, which names the
        variable.
        """
        return {}

    def context_messages(self, environment: Mapping[str, str]) -> int:
        """Return how many messages a called agent gets, if the file leaves it open. Raises
        ValueError.
        """
        return 0


SYSTEMS: Mapping[str, str] = MappingProxyType(
    {
        "octopus": "perdure.interop.settings:OctopusSettings",
        "kaos": "perdure.interop.settings:KaosSettings",
    }
)
"""Key in an agent's metadata → module and class; imported for an agent of that system."""
TOOLS_IN_TEXT = "kaos"
"""The system whose agents write tool calls into their text: an agent that does so without naming a
system counts as its."""


@cache
def system_of(name: str) -> System:
    """Return the system of that key. Raises KeyError if there is none."""
    module, _, attribute = SYSTEMS[name].partition(":")
    return cast(System, getattr(import_module(module), attribute)())
