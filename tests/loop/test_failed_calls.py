"""The table of what follows a failed call has each kind, and the page on providers shows it as it
is.
"""

from __future__ import annotations

import re
from typing import get_args

from perdure.errors import ModelErrorKind
from perdure.event_data import HoldReason
from perdure.loop.failed_calls import AFTER

from ..support.documents import ROOT

DOCS = ROOT / "docs"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (yes|no) \| (?:`(\w+)`|no) \|$", re.MULTILINE)


def test_each_kind_has_one_row() -> None:
    assert sorted(AFTER) == sorted(get_args(ModelErrorKind))


def test_the_page_has_the_same_rows() -> None:
    shown = {
        kind: ("never" if again == "no" else again, passed == "yes", held or None)
        for kind, again, passed, held in ROW.findall(
            (DOCS / "reference" / "providers.md").read_text()
        )
    }
    assert shown == {kind: tuple(row) for kind, row in AFTER.items()}


def test_the_page_on_holding_has_each_reason() -> None:
    page = (DOCS / "guides" / "waiting.md").read_text()
    assert all(f"| `{reason}` |" in page for reason in get_args(HoldReason))
