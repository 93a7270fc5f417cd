"""How values become payloads, and come back."""

from __future__ import annotations

import asyncio
import base64
import random

import pytest
import zstandard
from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    PayloadConverter,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from perdure.conversation import Append, ConversationRef
from perdure.errors import ConfigurationError, PayloadTooLargeError
from perdure.messages import Message
from perdure.payloads.converter import (
    ENCODING,
    DeferringConverter,
    SharedPayloadConverter,
    ZstdCodec,
    converter_from_environment,
    data_converter,
    perdure_data_converter,
    with_converter,
)
from perdure.payloads.encryption import EncryptionError
from perdure.payloads.encryption.keys import new_key

from ..support.shop_codec import ShopCodec

NOISE = base64.b64encode(random.Random(1).randbytes(30_000)).decode()


async def encoded(value: object, converter: DataConverter = perdure_data_converter) -> Payload:
    (payload,) = await converter.encode([value])
    return payload


async def test_large_values_are_compressed_each_by_itself() -> None:
    text, noise = "the same again " * 10_000, random.Random(2).randbytes(50_000)
    values = ["x" * 1000, text, NOISE, noise]
    payloads = await perdure_data_converter.encode(values)
    encodings = [payload.metadata["encoding"] for payload in payloads]
    assert encodings == [b"json/plain", ENCODING, ENCODING, b"binary/plain"]
    assert payloads[1].ByteSize() < 1000
    assert await perdure_data_converter.decode(payloads, [str, str, str, bytes]) == values
    own = await encoded("x" * 2000, data_converter(compress_from_bytes=1000))
    assert own.metadata["encoding"] == ENCODING


async def test_what_others_wrote_can_be_read() -> None:
    reference = ConversationRef(
        base=0, version=1, digest="d", operations=[Append(messages=[Message.user("hi")])]
    )
    payloads = await pydantic_data_converter.encode([reference])
    assert await perdure_data_converter.decode(payloads, [ConversationRef]) == [reference]


async def test_damaged_data_is_an_error_for_who_reads_it() -> None:
    payload = await encoded(NOISE)
    payload.data = payload.data[:100]
    assert await ZstdCodec().decode([payload]) == [payload]
    with pytest.raises(
        EncryptionError, match="Unknown payload encoding binary/zstd: name the codec"
    ):
        await perdure_data_converter.decode([payload], [str])


class Typed(BaseModel):
    n: int


@pytest.mark.parametrize("converter", [SharedPayloadConverter(), PydanticPayloadConverter()])
@pytest.mark.parametrize(
    ("encoding", "data", "error"),
    [
        (b"binary/shop", b"...", EncryptionError),
        (b"json/plain", b"\x8f\x03...", EncryptionError),
        (b"json/plain", b'{"n": "wrong"}', ValidationError),
    ],
)
def test_a_workflow_is_told_which_values_another_worker_may_read(
    converter: PayloadConverter, encoding: bytes, data: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        DeferringConverter(converter).from_payloads(
            [Payload(metadata={"encoding": encoding}, data=data)], [Typed]
        )


SHOP = "tests.support.shop_codec:"


@pytest.mark.parametrize("name", ["ShopCodec", "NO_CODEC", "absent"])
async def test_the_environment_may_name_a_codec(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = await perdure_data_converter.encode([NOISE])
    monkeypatch.setenv("PERDURE_CODEC", SHOP + name)
    if name != "ShopCodec":
        with pytest.raises(ConfigurationError, match="PERDURE_CODEC='tests.support.shop_codec:"):
            converter_from_environment()
        return
    converter = converter_from_environment()
    payloads = await converter.encode(["small", NOISE])
    assert await DataConverter(payload_codec=ShopCodec()).decode(payloads, [str, str]) == [
        "small",
        NOISE,
    ]
    assert await converter.decode([*payloads, *compressed], [str, str, str]) == [
        "small",
        NOISE,
        NOISE,
    ]
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEY", new_key("test"))
    with pytest.raises(ConfigurationError, match="leave out one of them"):
        converter_from_environment()


def test_a_client_with_the_default_converter_gets_ours(client: Client) -> None:
    assert with_converter(client) is client
    settings = client.config(active_config=True)
    settings["data_converter"] = DataConverter.default
    plain = Client(**settings)
    converted = with_converter(plain)
    assert converted is not plain
    assert converted.service_client is plain.service_client
    assert isinstance(converted.data_converter.payload_codec, ZstdCodec)


def test_no_part_of_the_converter_takes_a_context() -> None:
    parts = SharedPayloadConverter().converters.values()
    assert not [part for part in parts if isinstance(part, WithSerializationContext)]


def in_activity(type: str | None) -> ActivitySerializationContext:
    return ActivitySerializationContext(
        namespace="default",
        activity_id="1",
        activity_type=type,
        activity_task_queue="q",
        workflow_id="w",
        workflow_type="perdure.AgentRun",
        is_local=False,
    )


@pytest.mark.parametrize(
    ("context", "encoding"),
    [
        (in_activity("perdure.call_model"), ENCODING),
        (in_activity("perdure.tool.find"), ENCODING),
        (in_activity(None), ENCODING),
        (in_activity("charge"), b"json/plain"),
        (WorkflowSerializationContext(namespace="default", workflow_id="w"), b"json/plain"),
    ],
)
async def test_what_others_read_is_plain(context: SerializationContext, encoding: bytes) -> None:
    converter = perdure_data_converter.with_context(context)
    payload = await encoded(NOISE, converter)
    assert payload.metadata["encoding"] == encoding
    assert await converter.decode([payload], [str]) == [NOISE]


async def test_what_temporal_would_not_take_is_compressed_all_the_same() -> None:
    of_workflow = WorkflowSerializationContext(namespace="default", workflow_id="w")
    text = "the same again " * 200_000
    payload = await encoded(text, perdure_data_converter.with_context(of_workflow))
    assert payload.metadata["encoding"] == ENCODING
    of_others = await encoded(text, perdure_data_converter.with_context(in_activity("charge")))
    assert of_others.metadata["encoding"] == b"json/plain"


HALF = 34 * 1024 * 1024
"""Of what may be unpacked, a little more than half."""


def packed(data: bytes) -> Payload:
    return Payload(metadata={"encoding": ENCODING}, data=zstandard.compress(data))


def in_json(data: bytes) -> Payload:
    return packed(Payload(metadata={"encoding": b"json/plain"}, data=data).SerializeToString())


async def test_what_unpacks_to_garbage_counts() -> None:
    """And the event loop has its turns meanwhile."""
    payloads, turns = [packed(bytes(HALF)), in_json(b"0" * HALF)], 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(take_turns())
    assert await ZstdCodec().decode(payloads) == payloads
    beside.cancel()
    assert turns > 1


async def test_a_workflow_task_has_one_bound_however_many_messages_it_has() -> None:
    codec = ZstdCodec().with_context(
        WorkflowSerializationContext(namespace="default", workflow_id="w")
    )
    garbage, message = packed(bytes(HALF)), in_json(b"0" * HALF)

    async def task() -> list[Payload]:
        await codec.decode([garbage])
        return await codec.decode([message])

    assert await asyncio.create_task(task()) == [message]


async def test_what_takes_long_to_read_weighs_more_than_its_size() -> None:
    deep = in_json(b"[" + b"{}," * 1_100_000 + b"{}]")
    assert await ZstdCodec().decode([deep]) == [deep]


async def test_a_message_that_would_take_long_to_read() -> None:
    """In a workflow, which reads it without a type; who decodes a value for itself gets it."""
    converter = perdure_data_converter.payload_converter
    for data in (b"0" * (9 << 20), b"[" + b"{}," * 700_000 + b"{}]"):
        payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
        with pytest.raises(PayloadTooLargeError, match="send less"):
            converter.from_payloads([payload])
    [text] = await perdure_data_converter.decode(converter.to_payloads(["x" * (9 << 20)]))
    assert len(text) == 9 << 20
