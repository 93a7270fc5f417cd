"""A release: its version has notes, and `.ci/release` refuses what it can't sign or describe."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from perdure._version import __version__

from .promises import PROMISED, promises

ROOT = Path(__file__).parents[2]


def release(**variables: str) -> str:
    """What `make release` writes to stderr when it refuses."""
    ended = subprocess.run(
        ["make", "release"],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert ended.returncode != 0
    return ended.stderr


def test_the_version_has_notes_and_is_stated_once() -> None:
    notes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", notes, re.MULTILINE)[:2] == ["Unreleased", __version__]
    assert len(notes.splitlines()) <= 150
    assert __version__ not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_a_release_needs_a_key_that_is_there() -> None:
    assert "name the file of the SSH key" in release(RELEASE_KEY="")
    assert "RELEASE_KEY=/nowhere/key" in release(RELEASE_KEY="/nowhere/key")


def test_what_can_not_be_signed_or_named_is_refused_before_anything_is_built(
    tmp_path: Path,
) -> None:
    """In a repository of one commit, which has what the script reads before it builds."""
    for name in (".ci/release", "perdure/_version.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def refusal(key: Path) -> str:
        ended = subprocess.run(
            [tmp_path / ".ci/release"],
            env={**os.environ, "RELEASE_KEY": str(key), "PYTHON": "/nowhere/python"},
            capture_output=True,
            text=True,
        )
        assert ended.returncode != 0
        return ended.stderr

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    for arguments in (["init"], ["add", "."], ["commit", "-m", "first"]):
        git(*arguments)
    assert "can't sign: name a private SSH key" in refusal(tmp_path / "CHANGELOG.md")
    git("tag", f"v{__version__}")
    git("commit", "--allow-empty", "-m", "second")
    assert f"the tag v{__version__} is on another commit" in refusal(tmp_path / "CHANGELOG.md")
    (tmp_path / "more").touch()
    assert "changes that are not committed" in refusal(tmp_path / "CHANGELOG.md")


def test_pythons_that_are_named_must_run() -> None:
    ended = subprocess.run(
        [ROOT / ".ci" / "pythons"],
        env={**os.environ, "PYTHONS": "python2.0"},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (1, "PYTHONS names python2.0, which does not run\n")


def test_names_that_were_promised_are_there() -> None:
    promised = set(PROMISED.read_text(encoding="utf-8").splitlines())
    assert len(promised) > 1000
    assert sorted(promised - promises()) == [], (
        "a break of what docs/operations/upgrades.md promises; until 0.1.0 is published, remove "
        "promised.txt and type: python -m tests.repository.promises"
    )
