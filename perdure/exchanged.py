"""The base of all types that processes exchange, and fields that are omitted from their JSON."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class Exchanged(BaseModel):
    """Keeps unknown fields, and passes them on.

    The processes of one run may have different versions: a newer client may start a run, an older
    worker continue it, and a newer one continue it again. Fields that the older one does not
    understand must still arrive.
    """

    model_config = ConfigDict(extra="allow")


def unless_empty(default: T) -> T:
    """A field with this falsy default: it is omitted from the JSON while its value is falsy."""
    field: T = Field(default=default, exclude_if=operator.not_)
    return field


def unless_none() -> Any:
    """A field that is None by default, and is then omitted from the JSON."""
    return Field(default=None, exclude_if=partial(operator.is_, None))
