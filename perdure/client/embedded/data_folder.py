"""Says where perdure keeps a user's data: the embedded server's database, its state and its log."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """`PERDURE_HOME`, else the platform's folder for a user's application data; it may not exist yet."""
    if home := os.environ.get("PERDURE_HOME"):
        return Path(home).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "perdure"
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "perdure"
