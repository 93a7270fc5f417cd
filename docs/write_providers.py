"""Writes the tables in docs/reference/providers.md from the dialects, the errors and the fakes: `make docs`.
A test compares.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path

from perdure.providers import error_words
from perdure.providers.dialects import WireDialect, table

FILE = Path(__file__).resolve().with_name("reference") / "providers.md"
REPORTS = "tests/providers/servers"
HEAD = "| server | recognised by | ids of calls | sent back to it | filled in | other rules |"
END = "\n\nWhat is reported of each"
ERRORS_HEAD = "| kind | codes | statuses | codes without a status |"
ERRORS_END = "\n\n### A conversation that is too long"
KNOWN_HEAD = "| server | what is reported, where and when |"
KNOWN_END = "\n\n## How a reply ends"


def page() -> str:
    """The whole page, with its table as it should be."""
    written = FILE.read_text(encoding="utf-8")
    rules = [_row(dialect) for dialect in (*table().values(), WireDialect(name="any"))]
    written = _with_rows(written, HEAD, END, rules)
    written = _with_rows(written, ERRORS_HEAD, ERRORS_END, list(_errors()))
    reports = sorted((FILE.parents[2] / REPORTS).glob("*.py"))
    known = [_known(path) for path in reports if path.stem not in ("__init__", "strict", "wires")]
    return _with_rows(written, KNOWN_HEAD, KNOWN_END, known)


def _with_rows(page: str, head: str, end: str, rows: list[str]) -> str:
    before, _, rest = page.partition(head)
    rule = "|" + " --- |" * (head.count("|") - 1)
    return "\n".join([before + head, rule, *rows]) + end + rest.partition(end)[2]


def _errors() -> Iterable[str]:
    for kind, row in error_words.table()["kinds"].items():
        cells = [_code(map(str, row.get(key, ()))) for key in ("codes", "statuses", "codes_alone")]
        if any(cells):
            yield f"| `{kind}` | {' | '.join(cells)} |"


def _known(report: Path) -> str:
    """The row of a fake: what its file says of the service."""
    said = ast.get_docstring(ast.parse(report.read_text(encoding="utf-8"))) or ""
    text = " ".join(said.replace("-\n", "-").split()).replace("|", "\\|")
    return f"| [`{report.stem}`](../../{REPORTS}/{report.name}) | {text} |"


def _row(dialect: WireDialect) -> str:
    report = FILE.parents[2] / REPORTS / f"{dialect.name}.py"
    name = (
        f"[`{dialect.name}`](../../{REPORTS}/{report.name})"
        if report.exists()
        else f"`{dialect.name}`"
    )
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
