"""What becomes of one value: sealed, opened, refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import ActivitySerializationContext, DataConverter
from temporalio.exceptions import ApplicationError

from perdure.payloads.converter import data_converter, perdure_data_converter
from perdure.payloads.encryption import Encryption, EncryptionError
from perdure.payloads.encryption.codec import ENCODING, KEY_ID, opened_text, sealed_text
from perdure.payloads.encryption.keys import new_key

OLD, NEW = new_key("old"), new_key("new")
TEXT = "what nobody else may read"


def converter(*keys: str, required: bool = False) -> DataConverter:
    return data_converter(encryption=Encryption.parse(",".join(keys), required=required))


async def sealed(value: object, *keys: str) -> Payload:
    [payload] = await converter(*(keys or (OLD,))).encode([value])
    return payload


async def opened(payload: Payload, *keys: str, required: bool = False) -> object:
    [value] = await converter(*(keys or (OLD,)), required=required).decode([payload])
    return value


@pytest.mark.parametrize("value", [TEXT, None, b"bytes", {"a": [TEXT]}, TEXT * 10_000])
async def test_every_value_is_sealed_and_opened(value: object) -> None:
    payload = await sealed(value)
    assert dict(payload.metadata)["encoding"] == ENCODING
    assert payload.metadata[KEY_ID] == b"old"
    assert TEXT.encode() not in payload.SerializeToString()
    assert await opened(payload) == value
    assert (await sealed(value)).data != payload.data, "equal values look different"
    assert payload.ByteSize() < 1000, "it is compressed first"


async def test_rotation() -> None:
    before = await sealed(TEXT, OLD)
    assert (await sealed(TEXT, NEW, OLD)).metadata[KEY_ID] == b"new"
    assert await opened(before, NEW, OLD) == TEXT
    with pytest.raises(
        EncryptionError, match="with the key 'old', and the keys here are new: add old:"
    ) as raised:
        await opened(before, NEW)
    assert raised.value.key_id == "old"
    with pytest.raises(EncryptionError, match="another key 'old'"):
        await opened(before, new_key("old"))
    with pytest.raises(
        EncryptionError, match="this process has no keys: add old:… to PERDURE_ENCRYPTION_KEY"
    ):
        await perdure_data_converter.decode([before])


async def test_a_changed_value_is_an_error_for_who_reads_it() -> None:
    payload = await sealed(TEXT)
    payload.data = payload.data[:-1] + bytes([payload.data[-1] ^ 1])
    with pytest.raises(ApplicationError, match="changed or damaged") as raised:
        await opened(payload)
    assert (raised.value.type, raised.value.non_retryable) == ("encryption", True)


async def test_the_keys_id_is_authenticated() -> None:
    secret = OLD.partition(":")[2]
    payload = await sealed(TEXT)
    payload.metadata[KEY_ID] = b"renamed"
    with pytest.raises(ApplicationError, match="changed or damaged"):
        await opened(payload, f"renamed:{secret}")


@pytest.mark.parametrize(
    "junk",
    [
        Payload(),
        Payload(data=b"x" * 100),
        Payload(metadata={KEY_ID: b"old"}, data=b"x"),
        *(Payload(metadata={KEY_ID: id}, data=b"x" * 100) for id in (b"k" * 65, b"\x1b[2J")),
    ],
)
async def test_junk_is_left_to_who_reads_it(junk: Payload) -> None:
    junk.metadata["encoding"] = ENCODING
    for each in (perdure_data_converter, converter(OLD)):
        with pytest.raises(EncryptionError, match="Unknown payload encoding"):
            await each.decode([junk])


async def test_clear_text_is_read_unless_encryption_is_required() -> None:
    [clear] = await perdure_data_converter.encode([TEXT])
    assert await opened(clear) == TEXT
    with pytest.raises(
        ApplicationError, match="A value is not encrypted, and PERDURE_ENCRYPTION_REQUIRED is set"
    ):
        await opened(clear, required=True)
    assert await opened(await sealed(TEXT), required=True) == TEXT


async def test_the_values_of_others_activities_too() -> None:
    context = ActivitySerializationContext(
        namespace="default", activity_type="charge", activity_task_queue="q", workflow_id="w", workflow_type="t",
        is_local=False, activity_id="1",
    )  # fmt: skip
    [payload] = await converter(OLD).with_context(context).encode([TEXT])
    assert payload.metadata["encoding"] == ENCODING


async def test_what_is_stored_outside_is_sealed(tmp_path: Path) -> None:
    stored = data_converter(storage=tmp_path.as_uri(), encryption=OLD)
    large = os.urandom(300_000)
    payloads = await stored.encode([large])
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert Payload.FromString(file.read_bytes()).metadata["encoding"] == ENCODING
    assert await stored.decode(payloads) == [large]


async def test_failures_say_nothing() -> None:
    try:
        try:
            raise ValueError(f"inner {TEXT}")
        except ValueError as inner:
            raise ApplicationError(f"outer {TEXT}", {"detail": TEXT}, type="kind") from inner
    except ApplicationError as error:
        failure = Failure()
        await converter(OLD).encode_failure(error, failure)
    assert TEXT.encode() not in failure.SerializeToString()
    assert (failure.message, failure.cause.message) == ("Encoded failure", "Encoded failure")
    read = await converter(OLD).decode_failure(failure)
    assert isinstance(read, ApplicationError)
    assert (read.message, read.details, read.type) == (f"outer {TEXT}", ({"detail": TEXT},), "kind")
    assert str(read.__cause__).endswith(f"inner {TEXT}")


async def test_texts_that_temporal_takes_as_strings() -> None:
    text = await sealed_text(converter(OLD), TEXT)
    assert TEXT not in text
    assert await opened_text(converter(NEW, OLD), text) == TEXT
    assert await sealed_text(perdure_data_converter, TEXT) == TEXT
    assert await opened_text(converter(OLD), "perdure-encrypted:junk") == "perdure-encrypted:junk"
    with pytest.raises(EncryptionError):
        await opened_text(perdure_data_converter, text)


def test_without_the_package_there_is_no_encryption() -> None:
    code = (
        "import sys; sys.modules['cryptography.hazmat.primitives.ciphers.aead'] = None\n"
        "from perdure.payloads.converter import converter_from_environment\n"
        "try: converter_from_environment()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    environment = {"PERDURE_ENCRYPTION_KEY": OLD}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(
        "EncryptionError encryption needs the package cryptography: pip install 'perdure["
    )
