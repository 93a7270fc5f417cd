"""The page's sources: modules of others are those that were published, and types are checked."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from perdure.gateway.page import FOLDER

from ..support.needs import node_package, program

ROWS = re.findall(
    r"^\| `([^`]+)` \| (\S+) (\S+), `([^`]+)` \|",
    (FOLDER / "vendor" / "NOTICE.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_each_module_of_others_has_a_row() -> None:
    assert {row[0] for row in ROWS} == {path.name for path in (FOLDER / "vendor").glob("*.js")}


@pytest.mark.parametrize(("file", "package", "version", "path"), ROWS)
def test_modules_of_others_are_as_node_package(
    file: str, package: str, version: str, path: str
) -> None:
    folder = node_package(package)
    assert json.loads((folder / "package.json").read_text())["version"] == version
    assert (FOLDER / "vendor" / file).read_bytes() == (folder / path).read_bytes()


def test_types_are_right(tmp_path: Path) -> None:
    tsc = program("tsc", package="typescript (npm)")
    modules = {
        name: [str(node_package(name))]
        for name in ("preact", "htm", "@preact/signals", "marked", "dompurify")
    }
    modules["preact/hooks"] = [str(node_package("preact") / "hooks")]
    modules["eventsource-parser"] = [str(node_package("eventsource-parser"))]
    options = {
        "checkJs": True,
        "allowJs": True,
        "noEmit": True,
        "strict": True,
        "noImplicitAny": False,
        "target": "es2023",
        "module": "esnext",
        "moduleResolution": "bundler",
        "skipLibCheck": True,
        "types": [],
        "lib": ["es2024", "dom", "dom.iterable"],
        "paths": modules,
    }
    files = [str(path) for path in FOLDER.rglob("*.js") if "vendor" not in path.parts]
    config = tmp_path / "tsconfig.json"
    config.write_text(json.dumps({"compilerOptions": options, "files": files}))
    found = subprocess.run([tsc, "-p", config], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout
