"""JSON as types say it."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object: the keys are strings, the values have a JSON form."""
