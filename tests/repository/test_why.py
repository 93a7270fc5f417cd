"""Tests that pages name as proofs exist; docs/why.md has one for each fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHY = ROOT / "docs" / "why.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: page.name)
def test_tests_that_a_page_names_exist(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert [f"{file}::{test}" for file, test in named if not _exists(ROOT / file, test)] == []


def test_each_fault_has_a_proof() -> None:
    section = WHY.read_text(encoding="utf-8").split("\n## Why this cannot happen here\n")[1]
    faults = section.split("\n### ")[1:]
    assert len(faults) >= 12
    assert [fault.splitlines()[0] for fault in faults if not NAMED.search(fault)] == []


def _exists(file: Path, test: str) -> bool:
    return file.is_file() and f"def {test}(" in file.read_text(encoding="utf-8")
