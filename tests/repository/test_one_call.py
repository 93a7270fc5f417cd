"""What a run does enters few files; pages of the documentation name those of a model call and of a
tool call.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from difflib import unified_diff
from functools import cache

import pytest
from temporalio.testing import WorkflowEnvironment

from .house import ROOT, listed

STEP = re.compile(r"^\d+\. `([a-z0-9_/]+\.py)`", re.MULTILINE)
MAX_FILES = {"model": 42, "tool": 39, "approval": 53, "start": 48, "turn": 114}
"""Files that each thing enters, at most: `trace_one_call` says what they are, and from where to
where they go."""

each_kind = pytest.mark.parametrize("kind", MAX_FILES)
PAGES = {"model", "tool"}
"""Of these, `docs/internals/one-KIND-call.md` names the files, and each is traced by a process of its own."""
each_page = pytest.mark.parametrize("kind", sorted(PAGES))
Entered = Callable[[str], Awaitable[list[str]]]


@pytest.fixture(scope="module")
def entered(server: WorkflowEnvironment) -> Entered:
    """Gives the files that a thing enters, as paths in `perdure/`, in the order of their first
    entry.
    """
    address = server.client.service_client.config.target_host
    processes: dict[tuple[str, ...], asyncio.Task[dict[str, list[str]]]] = {}

    async def files_of(kind: str) -> list[str]:
        kinds = (kind,) if kind in PAGES else tuple(MAX_FILES.keys() - PAGES)
        if kinds not in processes:
            processes[kinds] = asyncio.create_task(_trace(address, kinds))
        return (await processes[kinds])[kind]

    return files_of


async def _trace(address: str, kinds: Sequence[str]) -> dict[str, list[str]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.repository.trace_one_call", address, *kinds),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        # The worker imports what its first call needs while it waits: what it enters then is no
        # part of the call.
        env={**os.environ, "OPENAI_API_KEY": "a-key-that-opens-nothing"},
    )
    stdout, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, stderr.decode()
    return dict(zip(kinds, map(json.loads, stdout.splitlines()[-len(kinds) :]), strict=True))


@cache
def page_of(kind: str) -> str:
    return (ROOT / "docs" / "internals" / f"one-{kind}-call.md").read_text()


@each_kind
async def test_it_enters_few_files(kind: str, entered: Entered) -> None:
    found = await entered(kind)
    what_to_do = (
        f"{len(found)} files, at most {MAX_FILES[kind]}: put together what is always entered "
        "together"
    )
    assert len(found) <= MAX_FILES[kind], listed(what_to_do, found)


@each_page
async def test_the_page_walks_the_same_way(kind: str, entered: Entered) -> None:
    written, found = STEP.findall(page_of(kind)), await entered(kind)
    difference = unified_diff(
        written,
        found,
        f"docs/internals/one-{kind}-call.md",
        "what one call enters",
        n=1,
        lineterm="",
    )
    assert written == found, "\n".join(["the page's steps are not those of the call:", *difference])


@each_page
def test_the_page_names_the_bound(kind: str) -> None:
    assert f"at most {MAX_FILES[kind]} files" in page_of(kind)
