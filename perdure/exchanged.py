"""The base of everything that perdure's processes exchange and record."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Exchanged(BaseModel):
    """Keeps the fields that this version does not know, and passes them on.

    The processes of one run need not be of one version: a run may be started by a newer client, continued by an older
    worker, and continued again by a newer one. What the older one does not understand must still arrive.
    """

    model_config = ConfigDict(extra="allow")
