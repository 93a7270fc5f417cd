"""Generated pages are up to date; links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("writer", "page"),
    [
        ("write_cli", "cli"),
        ("write_agent_file", "agent-file"),
        ("write_api", "api"),
        ("write_providers", "providers"),
        ("write_rest", "rest"),
    ],
)
def test_pages_that_are_written_from_the_code(writer: str, page: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, 'docs'); import {writer}; "
        f"sys.stdout.write({writer}.page())"
    )
    written = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert written == (ROOT / "docs" / "reference" / f"{page}.md").read_text(), "type: make docs"


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda page: page.name
)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
