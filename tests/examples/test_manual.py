"""Each block of the manual is executed, output, another framework's, or marked with a reason."""

from __future__ import annotations

import ast
import re

from .manual import GENERATED, PAGES, ROOT, blocks, own_test, rows

MOST_NOT_RUN = 12
"""Lower it when one of them can be executed."""
BLOCKS = [each for page in PAGES for each in blocks(page)]


def test_few_blocks_are_not_executed() -> None:
    marked = [each for each in BLOCKS if each.treatment == "not run"]
    assert len(marked) <= MOST_NOT_RUN, "\n".join([*rows(), *map(str, marked)])
    assert [str(each) for each in marked if len(each.info.split()) < 3] == []


def test_a_mark_names_a_test_that_exists() -> None:
    named = {
        name
        for each in BLOCKS
        if each.treatment == "not run"
        for name in re.findall(r"\btest_\w+\.py|\btests/[\w/]+|\.ci/\S+", each.info)
    }
    named |= {f"{test}.py" for page in PAGES if (test := own_test(page))}
    missing = {
        name
        for name in named
        if not (ROOT / name).exists() and not [*ROOT.glob(f"tests/**/{name}")]
    }
    assert missing == set()


def test_every_first_line_is_of_a_known_form() -> None:
    """A misspelt mark would be the name of a file."""
    names = re.compile(r"|[\w/-]+\.(?:py|prompty|yaml)(?: more| after .+)?")
    unknown = [
        str(each)
        for each in BLOCKS
        if each.treatment == "executed" and not names.fullmatch(each.info)
    ]
    assert unknown == []


def test_code_of_other_frameworks_compiles() -> None:
    for each in BLOCKS:
        if each.treatment == "other framework" and each.language == "python":
            compile(each.text, str(each), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_pages_of_programs_are_the_generated_ones() -> None:
    writers = {page.stem.removeprefix("write_") for page in (ROOT / "docs").glob("write_*.py")}
    assert {name.replace("-", "_") for name in GENERATED} <= writers
