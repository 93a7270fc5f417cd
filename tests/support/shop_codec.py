"""A payload codec of a shop's own, as programs beside perdure have one."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

ENCODING = b"binary/shop"


class ShopCodec(PayloadCodec):
    """Turns every payload into text, as base64."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(
                metadata={"encoding": ENCODING}, data=base64.b64encode(payload.SerializeToString())
            )
            for payload in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload.FromString(base64.b64decode(payload.data))
            if payload.metadata["encoding"] == ENCODING
            else payload
            for payload in payloads
        ]


NO_CODEC = {"not": "a codec"}
