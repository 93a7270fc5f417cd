"""CONTRIBUTING.md and README.md show the package as it is: its rooms, what lies above what, and paths that exist."""

from __future__ import annotations

import re

from .house import LAYERS, NEVER, ROOT, rooms

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
README = (ROOT / "README.md").read_text()
MAP = GUIDE.partition("```text\n")[2].partition("```")[0]
ROOM = re.compile(r"^(\w+) {2,}.*?(?:; never imports ([\w, ]+))?$", re.MULTILINE)
WRITTEN_PATH = re.compile(r"`([\w./-]+(?:/|\.md|\.py|\.toml|\.txt|\.yml)|[\w.-]+(?:/[\w.-]+)+)`")


def test_the_map_has_the_layers_from_top_to_bottom() -> None:
    drawn = tuple(tuple(room for room, _ in ROOM.findall(layer)) for layer in MAP.split("  ↓\n"))
    assert tuple(reversed(drawn)) == LAYERS, "the map in CONTRIBUTING.md and LAYERS in house.py say the same"


def test_the_map_says_which_rooms_leave_others_alone() -> None:
    said = {room: tuple(never.split(", ")) for room, never in ROOM.findall(MAP) if never}
    assert said == NEVER, "`never imports` in CONTRIBUTING.md and NEVER in house.py say the same"


def test_the_readme_says_what_each_room_is_for() -> None:
    named = re.findall(r"^\| \[perdure/(\w*)/?\]", README, re.MULTILINE)
    assert sorted(name or "core" for name in named) == sorted(rooms()), "correct the table `What is where`"


def test_paths_in_the_guide_exist() -> None:
    paths = [path for path in WRITTEN_PATH.findall(GUIDE) if "ROOM" not in path]
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
