"""A model call and a tool call pass through few files, and a page of the documentation names them in order."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from difflib import unified_diff
from functools import cache

import pytest
from temporalio.testing import WorkflowEnvironment

from .house import ROOT, listed

STEP = re.compile(r"^\d+\. `([a-z0-9_/]+\.py)`", re.MULTILINE)
MAX_FILES = {"model": 31, "tool": 36}
"""Files that a call enters, at most."""

each_kind = pytest.mark.parametrize("kind", MAX_FILES)
Entered = Callable[[str], Awaitable[list[str]]]


@pytest.fixture(scope="module")
def entered(server: WorkflowEnvironment) -> Entered:
    """Gives the files that one call enters, as paths in `perdure/`, in the order of their first entry."""
    address = server.client.service_client.config.target_host
    tasks: dict[str, asyncio.Task[list[str]]] = {}

    async def files_of(kind: str) -> list[str]:
        if kind not in tasks:
            tasks[kind] = asyncio.create_task(_trace(kind, address))
        return await tasks[kind]

    return files_of


async def _trace(kind: str, address: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.repository.trace_one_call", kind, address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    stdout, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, stderr.decode()
    return list(json.loads(stdout.splitlines()[-1]))


@cache
def page_of(kind: str) -> str:
    return (ROOT / "docs" / f"one-{kind}-call.md").read_text()


@each_kind
async def test_a_call_enters_few_files(kind: str, entered: Entered) -> None:
    found = await entered(kind)
    what_to_do = f"{len(found)} files, at most {MAX_FILES[kind]}: put together what is always entered together"
    assert len(found) <= MAX_FILES[kind], listed(what_to_do, found)


@each_kind
async def test_the_page_walks_the_same_way(kind: str, entered: Entered) -> None:
    written, found = STEP.findall(page_of(kind)), await entered(kind)
    difference = unified_diff(written, found, f"docs/one-{kind}-call.md", "what one call enters", n=1, lineterm="")
    assert written == found, "\n".join(["the page's steps are not those of the call:", *difference])


@each_kind
def test_the_page_names_the_bound(kind: str) -> None:
    assert f"at most {MAX_FILES[kind]} files" in page_of(kind)
