"""Files and folders that only their owner can read, because they contain conversations."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """`PERDURE_HOME`, else the platform's folder for a user's application data; it may not exist
    yet.
    """
    if home := os.environ.get("PERDURE_HOME"):
        return Path(home).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "perdure"
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "perdure"


def private_opener(path: str, flags: int) -> int:
    """For `open(…, opener=…)`: a new file is readable by its owner alone; an existing one keeps its
    mode.
    """
    return os.open(path, flags, 0o600)


def write_private(path: Path, text: str) -> None:
    """Write the text. Raises OSError."""
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(text)


def make_private_folder(path: Path, *, is_own: bool = False) -> None:
    """Create the folder and its parents, unless it exists; one that perdure created before becomes
    private, too.

    `is_own` marks such a folder. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
        if is_own:
            make_private(path)


def make_private(path: Path) -> None:
    """Remove others' access to a file or folder of this user's. Raises OSError."""
    found = path.stat()
    if found.st_uid == os.getuid() and found.st_mode & 0o077:
        path.chmod(found.st_mode & 0o700)
