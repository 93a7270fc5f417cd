"""Writes the table of servers in docs/providers.md from the dialects: `make docs`. A test compares."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from perdure.providers.dialects import WireDialect, table

FILE = Path(__file__).resolve().with_name("providers.md")
REPORTS = "tests/providers/servers"
HEAD = "| server | recognised by | ids of calls | sent back to it | filled in | other rules |"
END = "\n\nWhat is reported of each"


def page() -> str:
    """The whole page, with its table as it should be."""
    written = FILE.read_text(encoding="utf-8")
    before, head, rest = written.partition(HEAD)
    after = rest.partition(END)[2]
    rows = [_row(dialect) for dialect in (*table().values(), WireDialect(name="any"))]
    return "\n".join([before + head, "| --- | --- | --- | --- | --- | --- |", *rows]) + END + after


def _row(dialect: WireDialect) -> str:
    report = FILE.parents[1] / REPORTS / f"{dialect.name}.py"
    name = f"[`{dialect.name}`](../{REPORTS}/{report.name})" if report.exists() else f"`{dialect.name}`"
    if dialect.name == "any":
        name = "any other"
    beside = [f"{_code([each])} beside calls" for each in dialect.keeps_beside_calls]
    filled = {**dialect.fills, **dialect.fills_call}
    cells = (
        name,
        _code(dialect.hosts) or ("`dialect` alone" if dialect.name != "any" else ""),
        _code([dialect.ids]),
        ", ".join([*filter(None, [_code(dialect.keeps)]), *beside]),
        _code(f"{key}: {json.dumps(value)}" for key, value in filled.items()),
        "; ".join(_rules(dialect)),
    )
    return "| " + " | ".join(cells) + " |"


def _rules(dialect: WireDialect) -> Iterable[str]:
    if dialect.needs_user:
        yield "the user begins"
    if not dialect.sees:
        yield "text alone"
    if dialect.refuses:
        yield f"without {_code(dialect.refuses)}"
    if dialect.renames:
        yield ", ".join(f"`{old}` is `{new}`" for old, new in dialect.renames.items())


def _code(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
