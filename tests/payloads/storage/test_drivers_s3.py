"""Values in S3, on a server that plays S3 in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aioboto3
import pytest
from moto import server as moto_server
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from perdure.payloads.converter import data_converter
from perdure.payloads.storage import close_storage
from perdure.payloads.storage.files import NOT_STORED

from ...support.stored import LARGE, require_damage_found, require_own_values_removed

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
async def converter(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DataConverter]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    async with aioboto3.Session().client("s3") as client:
        await client.create_bucket(Bucket="values")
    yield data_converter(storage="s3://values/perdure/tests")
    await close_storage()
    server.stop()


async def keys() -> list[str]:
    async with aioboto3.Session().client("s3") as client:
        listed = await client.list_objects_v2(Bucket="values")
        return [held["Key"] for held in listed.get("Contents", [])]


async def test_a_large_value_is_stored_under_the_prefix_damaged_and_lost(
    converter: DataConverter,
) -> None:
    async def write(data: bytes | None) -> str:
        [key] = await keys()
        async with aioboto3.Session().client("s3") as client:
            if data is None:
                await client.delete_object(Bucket="values", Key=key)
            else:
                await client.put_object(Bucket="values", Key=key, Body=data)
        return key

    await require_damage_found(converter, write)


async def test_a_bucket_that_refuses_a_value(converter: DataConverter) -> None:
    """What made the value, such as a tool, is not done again for it."""
    nowhere = data_converter(storage="s3://no-such-bucket")
    with pytest.raises(
        ApplicationError, match=r"can't be stored in the bucket \(PERDURE_STORAGE\): .*bucket"
    ) as raised:
        await nowhere.encode([LARGE])
    assert (raised.value.type, raised.value.non_retryable) == (NOT_STORED, True)


async def test_the_values_of_a_run_are_found_and_removed(
    converter: DataConverter, client: Client
) -> None:
    await require_own_values_removed(converter, client)
    assert [key for key in await keys() if "/ns/" in key] == []
