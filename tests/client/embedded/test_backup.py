"""Copies of the embedded server's database."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure.client.embedded.backup import back_up, put_back
from perdure.client.embedded.server import LocalServer
from perdure.client.embedded.state import database_of
from perdure.errors import ConfigurationError

from ...support.command_line import Cli


async def test_a_copy_of_a_running_server_is_put_back(tmp_path: Path, embedded: Cli) -> None:
    folder, copy = tmp_path, tmp_path / "copies" / "monday.db"
    copy.parent.mkdir()
    async with LocalServer(folder) as server:
        client = await server.connect()
        await client.start_workflow("Kept", id="kept", task_queue="nobody")
        made = await embedded("backup", str(copy))
        assert made.code == 0, made.stderr
        assert copy.stat().st_mode & 0o777 == 0o600
        await client.start_workflow("Later", id="later", task_queue="nobody")
        refused = await embedded("restore", str(copy), "--yes")
        assert (refused.code, "is in use: end the perdure processes" in refused.stderr) == (1, True)
        assert await client.get_workflow_handle("later").describe()
    asked = await embedded("restore", str(copy))
    assert (asked.code, "Replace" in asked.stderr) == (2, True)
    done = await embedded("restore", str(copy), "--yes")
    assert done.code == 0, done.stderr
    assert [path.name for path in folder.glob("temporal.db.before-*")]
    async with LocalServer(folder) as server:
        client = await server.connect()
        assert (await client.get_workflow_handle("kept").describe()).id == "kept"
        assert [each.id async for each in client.list_workflows("WorkflowType = 'Later'")] == []


async def test_a_server_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    folder, copy = tmp_path / "folder", tmp_path / "copy.db"
    async with LocalServer(folder):
        back_up(folder, copy)
        with pytest.raises(ConfigurationError, match="is in use"):
            put_back(folder, copy)
    for _ in range(3):
        server = LocalServer(folder)
        await server.start()
        server.leave()
        assert put_back(folder, copy) is not None


def test_what_can_not_be_copied(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="expected the folder of an embedded server"):
        back_up(tmp_path, tmp_path / "copy")
    database_of(tmp_path).write_bytes(b"")
    (tmp_path / "copy").write_text("there")
    with pytest.raises(ConfigurationError, match="is there already"):
        back_up(tmp_path, tmp_path / "copy")
    with pytest.raises(ConfigurationError, match="can't be written"):
        back_up(tmp_path, tmp_path / "no" / "copy")
    with pytest.raises(ConfigurationError, match="is not a database of Temporal's"):
        back_up(tmp_path, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "temporal.db"]


def test_what_is_no_copy_is_not_put_back(tmp_path: Path) -> None:
    other, torn = tmp_path / "other.db", tmp_path / "torn.db"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE t (x)")
        database.executemany("INSERT INTO t VALUES (?)", [("y" * 3000,) for _ in range(30)])
        database.commit()
    content = bytearray(other.read_bytes())
    torn.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "head.db").write_bytes(content[:16])
    (tmp_path / "link.db").symlink_to(__file__)
    for file, problem in {
        other: "is not a database of Temporal's",
        torn: "is damaged|is not a database of Temporal's",
        tmp_path / "missing.db": "is not a file",
        Path(__file__): "is not a database of Temporal's",
        Path("/dev/zero"): "is not a file",
        tmp_path: "is not a file",
        tmp_path / "pipe": "is not a file",
        tmp_path / "head.db": "is not a database of Temporal's",
        tmp_path / "link.db": "is not a database of Temporal's",
    }.items():
        with pytest.raises(ConfigurationError, match=problem):
            put_back(tmp_path / "folder", file)
    assert not (tmp_path / "folder").exists()


async def test_links_in_the_folder_lead_nothing_elsewhere(tmp_path: Path) -> None:
    folder, copy, mine = tmp_path / "folder", tmp_path / "copy.db", tmp_path / "mine"
    async with LocalServer(tmp_path / "first"):
        pass
    back_up(tmp_path / "first", copy)
    folder.mkdir()
    mine.write_text("mine")
    for name in ("temporal.db", "temporal.db.new", "temporal.db-wal"):
        (folder / name).symlink_to(mine)
    assert put_back(folder, copy) is not None
    assert mine.read_text() == "mine"
    assert not database_of(folder).is_symlink()
