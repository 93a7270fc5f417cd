"""Dependencies have bounds, the pinned set fits them, and no file names a package registry."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = [
    *PROJECT["project"]["dependencies"],
    *(line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra),
]
DEVELOPMENT = [*PROJECT["dependency-groups"]["dev"], *PROJECT["dependency-groups"]["docs"]]


@pytest.mark.parametrize("line", RUNTIME)
def test_users_get_bounds_on_both_sides(line: str) -> None:
    requirement = Requirement(line)
    if requirement.extras and not requirement.specifier:
        assert any(
            Requirement(other).name == requirement.name and ">=" in other for other in RUNTIME
        )
        return
    operators = {specifier.operator for specifier in requirement.specifier}
    assert {">=", "<"} <= operators


def test_the_pinned_set_fits_the_bounds() -> None:
    pins = _pins()
    for requirement in map(Requirement, [*PROJECT["project"]["dependencies"], *DEVELOPMENT]):
        pinned = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pinned, prereleases=True), (
            f"{requirement} is pinned to {pinned}"
        )


def test_everything_pinned_is_one_exact_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(line.startswith("#") or "==" in line for line in lines)


def test_no_file_names_a_package_registry() -> None:
    hosts = (
        "pypi" + ".org",
        "python" + "hosted",
        "npmjs" + ".org",
        "index" + "-url",
        "find" + "-links",
    )
    found = [
        f"{path}: {host}"
        for path in _committed_files()
        for host in hosts
        if host.encode() in path.read_bytes()
    ]
    assert found == []


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def _committed_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]
