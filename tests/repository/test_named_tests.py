"""Each test that a page names as its proof is there; docs/why.md has one for each fault."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_what_pages_name_is_there() -> None:
    found = {
        (page.name, *named)
        for page in sorted(ROOT.glob("docs/**/*.md"))
        for named in NAMED.findall(page.read_text())
    }
    missing = [
        f"{page} names {file}::{name}"
        for page, file, name in sorted(found)
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text()
    ]
    assert not missing, "\n".join(missing)
    assert any(page == "security.md" for page, _, _ in found)


def test_each_fault_has_a_proof() -> None:
    page = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
    faults = page.split("\n## Why this cannot happen here\n")[1].split("\n### ")[1:]
    assert len(faults) >= 12
    assert [fault.splitlines()[0] for fault in faults if not NAMED.search(fault)] == []
