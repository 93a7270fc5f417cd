"""PERDURE_STORAGE chooses a storage, or says what is wrong with it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.converter import (
    DataConverter,
)

from perdure.client import connect
from perdure.errors import ConfigurationError
from perdure.payloads.converter import converter_from_environment, data_converter, with_converter
from perdure.payloads.storage import FileDriver, open_storage
from perdure.worker import PerdurePlugin


def chosen(url: str) -> object:
    return open_storage(url).drivers[0]


def test_a_folder() -> None:
    driver = chosen("file:///var/lib/perdure%20values")
    assert isinstance(driver, FileDriver)
    assert driver.folder == Path("/var/lib/perdure values")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file://relative/folder", "'relative' is read as a host"),
        ("file:folder", "must be absolute"),
        ("file:///", "not the root"),
        ("/var/lib/perdure", "the scheme is ''"),
        ("ftp://bucket", "the scheme is 'ftp'"),
        ("s3:///prefix", "expected a bucket"),
        ("gs://bucket/prefix?region=eu", "expected a bucket"),
    ],
)
def test_what_is_no_storage(url: str, reason: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"Expected one of file:///folder, s3://"
    ) as raised:
        open_storage(url)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("s3://b/p", "aioboto3", "perdure[s3]"), ("gs://b/p", "gcloud", "perdure[gcs]")],
)
def test_a_cloud_needs_its_package(url: str, module: str, extra: str) -> None:
    if importlib.util.find_spec(module):
        assert chosen(url) is not None
        return
    with pytest.raises(ConfigurationError) as raised:
        open_storage(url)
    assert f"pip install '{extra}'" in str(raised.value)


async def test_the_environment_is_honoured_everywhere(
    client: Client, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORAGE", tmp_path.as_uri())
    connected = await connect(address)
    settings = client.config(active_config=True)
    settings["data_converter"] = DataConverter.default
    plain = Client(**settings)
    plugged = await Client.connect(address, plugins=[PerdurePlugin()])
    for configured in (connected, with_converter(plain), plugged):
        storage = configured.data_converter.external_storage
        assert storage is not None
        assert isinstance(storage.drivers[0], FileDriver)
        assert storage.drivers[0].folder == tmp_path
    monkeypatch.setenv("PERDURE_STORAGE", "")
    assert converter_from_environment().external_storage is None
    monkeypatch.setenv("PERDURE_STORAGE", "nowhere")
    with pytest.raises(ConfigurationError, match="PERDURE_STORAGE='nowhere' can't be used"):
        await connect(address)


def test_an_argument_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_STORAGE", "file:///elsewhere")
    storage = open_storage(tmp_path.as_uri())
    for converter in (data_converter(storage=storage), data_converter(storage=tmp_path.as_uri())):
        assert converter.external_storage is not None
        assert isinstance(converter.external_storage.drivers[0], FileDriver)
        assert converter.external_storage.drivers[0].folder == tmp_path
