"""CONTRIBUTING.md and README.md show the package as it is: its rooms, what lies above what, where
tests are.
"""

from __future__ import annotations

import re
from pathlib import Path

from .house import LAYERS, NEVER, PACKAGE, ROOT, listed, rooms

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
README = (ROOT / "README.md").read_text()
TESTS = ROOT / "tests"
MAP = GUIDE.partition("```text\n")[2].partition("```")[0]
ROOM = re.compile(r"^(\w+) {2,}.*?(?:; never imports ([\w, ]+))?$", re.MULTILINE)
WRITTEN_PATH = re.compile(r"`([\w./-]+(?:/|\.md|\.py|\.toml|\.txt|\.yml)|[\w.-]+(?:/[\w.-]+)+)`")


def test_the_map_has_the_layers_from_top_to_bottom() -> None:
    drawn = tuple(tuple(room for room, _ in ROOM.findall(layer)) for layer in MAP.split("  ↓\n"))
    assert tuple(reversed(drawn)) == LAYERS, (
        "the map in CONTRIBUTING.md and LAYERS in house.py say the same"
    )


def test_the_map_says_which_rooms_leave_others_alone() -> None:
    said = {room: tuple(never.split(", ")) for room, never in ROOM.findall(MAP) if never}
    assert said == NEVER, "`never imports` in CONTRIBUTING.md and NEVER in house.py say the same"


def test_the_readme_says_what_each_room_is_for() -> None:
    named = re.findall(r"^\| \[perdure/(\w*)/?\]", README, re.MULTILINE)
    drawn = [room for room, _ in ROOM.findall(MAP)]
    assert [name or "core" for name in named] == drawn, (
        "the table `What is where` has the order of the map"
    )


def test_paths_in_the_guide_exist() -> None:
    text = re.sub(
        r"### Features.*?\n## ", "", GUIDE, flags=re.DOTALL
    )  # Its paths are those of `test_measures`.
    paths = [path for path in WRITTEN_PATH.findall(text) if "ROOM" not in path]
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_guide_names_every_folder_of_tests() -> None:
    folders = {path.name for path in TESTS.iterdir() if (path / "__init__.py").exists()}
    said = set(
        re.findall(r"`tests/(\w+)`", GUIDE.partition("`tests/ROOM/")[2].partition("\n\n")[0])
    )
    assert folders - rooms() == said, "correct the paragraph on tests in CONTRIBUTING.md"


def test_tests_have_the_names_of_what_they_test() -> None:
    in_rooms = [path for room in rooms() for path in (TESTS / room).rglob("test_*.py")]
    astray = [
        path.relative_to(ROOT)
        for path in [*in_rooms, *TESTS.glob("test_*.py")]
        if not _tested_by(path)
    ]
    assert not astray, listed(
        "begin with the name of the module: tests/ROOM/test_NAME.py or test_NAME_ASPECT.py", astray
    )


def _tested_by(test: Path) -> bool:
    """Whether the file is beside a module with its name, or the beginning of its name."""
    folder, words = (
        PACKAGE / test.parent.relative_to(TESTS),
        test.stem.removeprefix("test_").split("_"),
    )
    names = ["_".join(words[:number]) for number in range(1, len(words) + 1)]
    return any((folder / f"{name}.py").exists() for name in names)
