"""docs/first-hour: each page is carried out in order, in one folder and one terminal; the files that
a reader has at the end are those of examples/rooms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .first_hour import PAGES, ROOT, Terminal, environment, steps

EXAMPLE = ROOT / "examples" / "rooms"
FILES: dict[str, str] = {}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("rooms")
    programs = Path(sys.executable).parent
    opened = Terminal(folder, environment(tmp_path_factory.mktemp("home"), programs))
    yield opened
    opened.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_reader_can_do_what_the_page_shows(page: Path, terminal: Terminal) -> None:
    for step in steps(page, FILES):
        terminal.follow(step)


def test_the_example_is_the_hour_at_its_end() -> None:
    files: dict[str, str] = {}
    for page in PAGES:
        assert list(steps(page, files)), f"{page} has no step"
    named = [*files, "README.md"]
    assert sorted(each.name for each in EXAMPLE.iterdir() if each.is_file()) == sorted(named)
    for name, text in files.items():
        assert (EXAMPLE / name).read_text() == text, f"examples/rooms/{name} differs"
