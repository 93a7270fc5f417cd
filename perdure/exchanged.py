"""The base of everything that processes exchange, and fields that are left out of its JSON."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class Exchanged(BaseModel):
    """Keeps the fields that this version does not know, and passes them on.

    The processes of one run need not be of one version: a run may be started by a newer client, continued by an older
    worker, and continued again by a newer one. What the older one does not understand must still arrive.
    """

    model_config = ConfigDict(extra="allow")


def unless_empty(default: T) -> T:
    """A field with this default, which is false: it is left out of the JSON while its value is."""
    field: T = Field(default=default, exclude_if=operator.not_)
    return field


def unless_none() -> Any:
    """A field that is None by default, and left out of the JSON then."""
    return Field(default=None, exclude_if=partial(operator.is_, None))
