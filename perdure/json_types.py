"""The types of JSON values, for annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
JsonView: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""
