"""Copies of the embedded server's database: made while it runs, checked, and put in its place while
it does not.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from ...errors import ConfigurationError
from ...private_files import make_private_folder
from .guard import GRACE_SECONDS
from .state import FileLock, database_of, has_users

SECONDS = 10.0


def back_up(folder: Path, target: Path) -> int:
    """Write a copy of the folder's database, as it is at one moment, to a file; return its size in
    bytes.

    The server may run. The file is its owner's alone, and there is all of it or none. Raises
    `ConfigurationError` for a folder without a database, a file that is there, and one that can't
    be written.
    """
    database = database_of(folder)
    if not database.exists():
        raise ConfigurationError(
            f"{str(database)!r} does not exist: expected the folder of an embedded server "
            "(--data-dir)"
        )
    if target.exists():
        raise ConfigurationError(
            f"{str(target)!r} is there already: expected the name of a new file"
        )
    written = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(written, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _copy(database, written)
        require_database(written)
        os.link(written, target)
        return target.stat().st_size
    except OSError as error:
        raise ConfigurationError(
            f"{str(target)!r} can't be written: {error.strerror or error}"
        ) from error
    finally:
        written.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """Raises `ConfigurationError` for what SQLite says."""
    import sqlite3

    try:
        with (
            closing(
                sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=SECONDS)
            ) as database,
            closing(sqlite3.connect(target)) as copy,
        ):
            database.backup(copy)
            copy.execute(
                "PRAGMA journal_mode=delete"
            )  # One file, without others that belong to it.
    except sqlite3.Error as error:
        raise ConfigurationError(
            f"{str(source)!r} can't be copied to {str(target)!r}: {error}"
        ) from error


def require_database(file: Path) -> None:
    """Raises `ConfigurationError` for a file that is not a whole database of a Temporal server."""
    import sqlite3

    expected = "expected a file that `perdure backup` has written"
    if not file.is_file():  # Reading a pipe may never end.
        raise ConfigurationError(f"{str(file)!r} is not a file: {expected}")
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        ) as database:
            problems = [
                text for (text,) in database.execute("PRAGMA integrity_check(5)") if text != "ok"
            ]
            database.execute("SELECT 1 FROM cluster_metadata_info, history_node LIMIT 1")
    except sqlite3.Error as error:
        raise ConfigurationError(
            f"{str(file)!r} is not a database of Temporal's: {error}; {expected}"
        ) from error
    if problems:
        raise ConfigurationError(f"{str(file)!r} is damaged: {'; '.join(problems)}; {expected}")


def put_back(folder: Path, source: Path) -> Path | None:
    """Put a copy in the place of the folder's database, and return where that is now; None where
    there was none.

    A server that is about to end is waited for. Raises `ConfigurationError` while somebody uses the
    server, and for a file that is not such a copy.
    """
    require_database(source)
    make_private_folder(folder, is_own=True)
    locks = [FileLock(folder / name) for name in ("start.lock", "users.lock", "server.lock")]
    try:
        _acquire(locks, folder)
        return _replace_database(database_of(folder), source)
    finally:
        for lock in locks:
            lock.release()


def _acquire(locks: Sequence[FileLock], folder: Path) -> None:
    """Raises `ConfigurationError` as soon as somebody uses the server, and when it does not end."""
    deadline = time.monotonic() + 2 * GRACE_SECONDS
    while not all(lock.try_acquire("exclusive") for lock in locks):
        for lock in locks:
            lock.release()  # The guard ends the server when it has the users' lock.
        if has_users(folder) or time.monotonic() > deadline:
            raise ConfigurationError(
                f"the embedded server of {str(folder)!r} is in use: end the perdure processes that "
                "use it "
                "(`perdure dev`, `server`, workers, watchers), then restore"
            )
        time.sleep(0.05)


def _replace_database(database: Path, source: Path) -> Path | None:
    """The new one is complete before the old one moves, which takes its journal with it."""
    written = database.with_name(f"{database.name}.new")
    written.unlink(missing_ok=True)
    os.close(os.open(written, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    _copy(source, written)
    require_database(written)
    aside = database.with_name(f"{database.name}.before-{secrets.token_hex(4)}")
    was_there = database.exists()
    for ending in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            database.with_name(database.name + ending).rename(aside.with_name(aside.name + ending))
    written.rename(database)
    return aside if was_there else None


def forget_deleted(folder: Path) -> None:
    """Let the journal of the folder's database be written anew: what was deleted is in it. The
    server may run.

    Nothing happens where the folder has no database.
    """
    import sqlite3

    if not database_of(folder).exists():
        return
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(database_of(folder), timeout=1.0)) as opened,
    ):
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
