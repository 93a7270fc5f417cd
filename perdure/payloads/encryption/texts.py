"""Encrypts the few texts that Temporal takes as plain strings, such as why a run is cancelled."""

from __future__ import annotations

import base64
import binascii

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from .codec import EncryptingCodec

PREFIX = "perdure-encrypted:"


async def sealed_text(converter: DataConverter, text: str) -> str:
    """The text; where the converter encrypts, an encrypted form of it, which is a text too."""
    if not text or not isinstance(converter.payload_codec, EncryptingCodec):
        return text
    [payload] = await converter.encode([text])
    return PREFIX + base64.b64encode(payload.SerializeToString()).decode()


async def opened_text(converter: DataConverter, text: str) -> str:
    """The text that `sealed_text` was given; any other one as it is.

    Raises `EncryptionError` for one whose key is not here.
    """
    if not text.startswith(PREFIX):
        return text
    try:
        payload = Payload.FromString(base64.b64decode(text.removeprefix(PREFIX), validate=True))
        [opened] = await converter.decode([payload], [str])
    except (binascii.Error, DecodeError, ApplicationError):
        return text
    return str(opened)
