"""The folder that large values are stored in."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from perdure.errors import ConfigurationError
from perdure.payloads.converter import data_converter

from ...support.stored import require_own_values_removed

LARGE = random.Random(1).randbytes(400_000).hex()


@pytest.fixture
def converter(tmp_path: Path) -> DataConverter:
    return data_converter(storage=(tmp_path / "values").as_uri())


def stored_files(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "values").rglob("*") if path.is_file())


async def test_a_large_value_is_stored_once(converter: DataConverter, tmp_path: Path) -> None:
    first = await converter.encode([LARGE])
    second = await converter.encode([LARGE])
    assert sum(payload.ByteSize() for payload in first) < 500
    assert first == second
    assert await converter.decode(first, [str]) == [LARGE]
    (file,) = stored_files(tmp_path)
    assert len(file.name) == 64
    assert file.parent.name == file.name[:2]


async def test_a_value_that_compresses_below_the_threshold_stays(
    converter: DataConverter, tmp_path: Path
) -> None:
    (payload,) = await converter.encode(["x" * 3_000_000])
    assert payload.ByteSize() < 10_000
    assert not (tmp_path / "values").exists()


async def test_many_writers_of_one_value(converter: DataConverter, tmp_path: Path) -> None:
    encoded = await asyncio.gather(*[converter.encode([LARGE]) for _ in range(20)])
    assert [await converter.decode(payloads, [str]) for payloads in encoded] == [[LARGE]] * 20
    assert len(stored_files(tmp_path)) == 1


async def test_a_damaged_file_and_a_missing_one(converter: DataConverter, tmp_path: Path) -> None:
    payloads = await converter.encode([LARGE])
    (file,) = stored_files(tmp_path)
    for damage in (b"", b"something else"):
        file.write_bytes(damage)
        with pytest.raises(ApplicationError, match="is damaged") as raised:
            await converter.decode(payloads, [str])
    file.unlink()
    with pytest.raises(ApplicationError, match=r"the stored value '.*' is gone") as lost:
        await converter.decode(payloads, [str])
    for each in (raised, lost):
        assert (each.value.type, each.value.non_retryable) == ("storage", True)


async def test_a_folder_that_is_not_there_may_come_back(
    converter: DataConverter, tmp_path: Path
) -> None:
    payloads = await converter.encode([LARGE])
    (tmp_path / "values").rename(tmp_path / "unmounted")
    with pytest.raises(FileNotFoundError):
        await converter.decode(payloads, [str])
    (tmp_path / "unmounted").rename(tmp_path / "values")
    assert await converter.decode(payloads, [str]) == [LARGE]


async def test_a_folder_that_can_not_be_written_leaves_nothing_behind(
    converter: DataConverter, tmp_path: Path
) -> None:
    (tmp_path / "values").write_text("a file where the folder should be")
    with pytest.raises(ApplicationError, match="values' .PERDURE_STORAGE.: File exists") as raised:
        await converter.encode([LARGE])
    assert (raised.value.type, raised.value.non_retryable) == ("not_stored", True)
    assert os.listdir(tmp_path) == ["values"]


async def test_a_reader_without_a_storage(converter: DataConverter) -> None:
    payloads = await converter.encode([LARGE])
    with pytest.raises(ConfigurationError, match="set PERDURE_STORAGE to its value"):
        await data_converter().decode(payloads, [str])
    other = data_converter(storage="s3://bucket")
    with pytest.raises(ConfigurationError, match=r"perdure\.files.*set PERDURE_STORAGE"):
        await other.decode(payloads, [str])


async def test_a_reference_that_names_no_file(converter: DataConverter, tmp_path: Path) -> None:
    (payload,) = await converter.encode([LARGE])
    payload.data = payload.data.replace(
        stored_files(tmp_path)[0].name.encode(), b"../../etc/passwd"
    )
    with pytest.raises(ApplicationError, match="is not a SHA-256"):
        await converter.decode([payload], [str])


async def test_the_values_of_a_run_are_found_and_removed(
    converter: DataConverter, client: Client, tmp_path: Path
) -> None:
    await require_own_values_removed(converter, client)
    assert stored_files(tmp_path) == []
