"""What a codec server does with payloads: decode, encode, fetch what is stored elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.converter import DataConverter, WithSerializationContext, WorkflowSerializationContext
from temporalio.exceptions import ApplicationError

from ...errors import ConfigurationError
from ...logs import get_logger
from ..converter import own_budget
from ..encryption import EncryptionError

logger = get_logger("perdure.codec_server")

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Of the values of one answer: kilobytes that anybody has sent to a run can hold gigabytes."""


async def decode(converter: DataConverter, payloads: Sequence[Payload], keeps_references: bool) -> list[Payload]:
    """The payloads decrypted and unpacked; one that can't be stays as it is, and so does a reference if wanted.

    So do all from the one on with which they would be more than `MAX_ANSWER_BYTES`.
    """
    values: list[Payload] = []
    left = MAX_ANSWER_BYTES
    with own_budget(is_shared=True):
        for payload in payloads:
            value = await _decoded(converter, payload, keeps_references)
            if (left := left - value.ByteSize()) < 0:
                logger.warning("payloads stay as they are: they have more than %d bytes together", MAX_ANSWER_BYTES)
                return [*values, *payloads[len(values) :]]
            values.append(value)
    return values


async def encode(converter: DataConverter, payloads: Sequence[Payload], keeps_references: bool) -> list[Payload]:
    """The payloads as perdure would send them to a workflow."""
    codec = converter.payload_codec
    if isinstance(codec, WithSerializationContext):
        codec = codec.with_context(WorkflowSerializationContext(namespace="", workflow_id=""))
    return await codec.encode(payloads) if codec else list(payloads)


async def download(converter: DataConverter, payloads: Sequence[Payload], keeps_references: bool) -> list[Payload]:
    """The values that are stored elsewhere, decoded.

    Raises `ConfigurationError` for one that can't be had, and for more than `MAX_ANSWER_BYTES`.
    """
    values, left = [], MAX_ANSWER_BYTES
    with own_budget(is_shared=True):
        for payload in payloads:
            values.append(await _fetched(converter, payload))
            if (left := left - values[-1].ByteSize()) < 0:
                raise ConfigurationError(f"the values have more than {MAX_ANSWER_BYTES} bytes together: ask for fewer")
    return values


ACTIONS = {"decode": decode, "encode": encode, "download": download}
"""By the last part of the URL's path."""


async def _decoded(converter: DataConverter, payload: Payload, keeps_reference: bool) -> Payload:
    if payload.external_payloads and (keeps_reference or converter.external_storage is None):
        return payload
    try:
        return await _fetched(converter, payload)
    except EncryptionError as error:
        logger.warning("a payload stays encrypted: its key %r is not here", error.key_id)
    except ConfigurationError:
        logger.warning("a payload stays as it is: it is lost, changed, not encrypted, or stored elsewhere")
    return payload


async def _fetched(converter: DataConverter, payload: Payload) -> Payload:
    try:
        [raw] = await converter.decode([payload], [RawValue])
    except (RuntimeError, OSError) as error:
        raise ConfigurationError(f"the value can't be fetched from where it is stored: {error}") from error
    except ApplicationError as error:
        raise ConfigurationError(error.message) from error
    value: Payload = raw.payload
    if value.metadata.get("encoding") == b"perdure/lost":
        raise ConfigurationError(value.data.decode(errors="replace"))
    return value
