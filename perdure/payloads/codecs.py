"""The user's own payload codec, named by `PERDURE_CODEC`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec, SerializationContext, WithSerializationContext

from ..errors import ConfigurationError
from ..loading import load_objects

VARIABLE = "PERDURE_CODEC"
"""The environment variable that names the codec, as `module:NAME` or `file.py:NAME`."""


class ForeignCodec(PayloadCodec, WithSerializationContext):
    """Writes only as the user's codec does, so that any program with that codec can read it.

    Also reads payloads that perdure compressed before the codec was set.
    """

    def __init__(self, codec: PayloadCodec, own: PayloadCodec) -> None:
        self._codec = codec
        self._own = own

    def with_context(self, context: SerializationContext) -> ForeignCodec:
        """Return the codec for the values of one activity, workflow or Nexus operation."""
        if not isinstance(self._codec, WithSerializationContext):
            return self
        return ForeignCodec(self._codec.with_context(context), self._own)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self._codec.encode(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self._own.decode(await self._codec.decode(payloads))


def codec_from_environment() -> PayloadCodec | None:
    """Return the codec named by `PERDURE_CODEC`; None if it is unset or empty.

    Raises `ConfigurationError` for a name that can't be loaded, or that is neither a codec nor a
    function returning one.
    """
    source = os.environ.get(VARIABLE)
    return _codec_of(source) if source else None


@lru_cache(maxsize=4)
def _codec_of(source: str) -> PayloadCodec:
    try:
        [found] = load_objects(source).values()
        made = found() if callable(found) else found
    except Exception as error:
        raise ConfigurationError(
            f"{VARIABLE}={source!r} (--codec) can't be used: {error}"
        ) from error
    if not isinstance(made, PayloadCodec):
        raise ConfigurationError(
            f"{VARIABLE}={source!r} (--codec) is {made!r:.80}: expected a "
            "temporalio.converter.PayloadCodec, its class, or a function that makes one"
        )
    return made
