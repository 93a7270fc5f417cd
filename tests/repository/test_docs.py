"""Generated pages are up to date; links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_on_the_command_line_is_its_help() -> None:
    code = "import sys; sys.path.insert(0, 'docs'); import write_cli; sys.stdout.write(write_cli.page())"
    written = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert written == (ROOT / "docs" / "cli.md").read_text(), "type: make docs"


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
