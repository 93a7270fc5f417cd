"""What some tests need and a machine may lack: Chromium, tmux, node. They are skipped there, and
fail where CI runs.
"""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

VARIABLE = "PERDURE_TESTS_NEED_ALL"
"""Set by `.ci/run`: there, what a test needs and does not find is an error."""


def lacking(what: str) -> NoReturn:
    """Skip the test that asks, or fail it where everything is to be there; `what` is missing, and
    how to get it.
    """
    if os.environ.get(VARIABLE):
        pytest.fail(f"needs {what}; it must be there because {VARIABLE} is set", pytrace=False)
    pytest.skip(f"needs {what}")


def program(*names: str, package: str) -> Path:
    """The first of these programs that is found; `package` is what `apt-get install` calls it."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        lacking(f"{' or '.join(names)} (apt-get install {package})")
    return Path(found)


def module(name: str) -> Any:
    """The module of a package of the group `dev`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        lacking(f"{name} (make test installs it)")


def node_folder(*packages: str) -> Path | None:
    """The folder of `NODE_PATH` that has all of these npm packages; None for none."""
    folders = map(Path, filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)))
    return next(
        (each for each in folders if all((each / name).is_dir() for name in packages)), None
    )


def node_package(name: str) -> Path:
    """The folder of an npm package."""
    if (folder := node_folder(name)) is None:
        lacking(f"{name} (npm install {name}, with NODE_PATH)")
    return folder / name
