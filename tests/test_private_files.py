"""What perdure writes of conversations is for its owner's eyes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.cli.export import _write
from perdure.client.embedded.server import LocalServer
from perdure.payloads.converter import data_converter
from perdure.private_files import make_private_folder, write_private


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "own"
    make_private_folder(folder)
    write_private(folder / "file", "text")
    assert (mode(folder.parent), mode(folder), mode(folder / "file")) == (0o755, 0o700, 0o600)
    folder.chmod(0o755)
    make_private_folder(folder)
    assert mode(folder) == 0o755
    make_private_folder(folder, is_own=True)
    assert mode(folder) == 0o700


async def test_stored_values(tmp_path: Path) -> None:
    await data_converter(storage=(tmp_path / "stored").as_uri()).encode([os.urandom(300_000)])
    modes = {mode(path) for path in (tmp_path / "stored").rglob("*") if path.is_dir()}
    files = {mode(path) for path in (tmp_path / "stored").rglob("*") if path.is_file()}
    assert (mode(tmp_path / "stored"), modes, files) == (0o700, {0o700}, {0o600})


async def test_the_embedded_servers_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "home"))
    async with LocalServer():
        files = [path for path in (tmp_path / "home").iterdir() if path.is_file()]
        assert {path.name: oct(mode(path)) for path in files if mode(path) != 0o600} == {}
        assert {"temporal.db", "server.log"} <= {path.name for path in files}
        assert mode(tmp_path / "home") == 0o700


async def test_exports(tmp_path: Path) -> None:
    async def lines() -> object:
        yield {"a": 1}

    assert await _write(lines(), tmp_path / "export.jsonl") == 1  # type: ignore[arg-type]
    assert (
        json.loads((tmp_path / "export.jsonl").read_text()),
        mode(tmp_path / "export.jsonl"),
    ) == ({"a": 1}, 0o600)
