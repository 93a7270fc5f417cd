"""One model call passes through few files, and docs/one-model-call.md names them in order."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from difflib import unified_diff

import pytest
from temporalio.testing import WorkflowEnvironment

from .house import ROOT, listed

PAGE = ROOT / "docs" / "one-model-call.md"
STEP = re.compile(r"^\d+\. `([a-z_/]+\.py)`", re.MULTILINE)
MAX_FILES = 30


@pytest.fixture(scope="module")
async def entered(server: WorkflowEnvironment) -> list[str]:
    """The files that one model call enters, as paths in `perdure/`, in the order of their first entry."""
    address = server.client.service_client.config.target_host
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.repository.trace_one_call", address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    stdout, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, stderr.decode()
    return list(json.loads(stdout.splitlines()[-1]))


async def test_one_model_call_enters_few_files(entered: list[str]) -> None:
    what_to_do = f"{len(entered)} files, at most {MAX_FILES}: put together what is always entered together"
    assert len(entered) <= MAX_FILES, listed(what_to_do, entered)


async def test_the_page_walks_the_same_way(entered: list[str]) -> None:
    written = STEP.findall(PAGE.read_text())
    difference = unified_diff(written, entered, "docs/one-model-call.md", "what one call enters", n=1, lineterm="")
    assert written == entered, "\n".join(["the page's steps are not those of the call:", *difference])


def test_the_page_names_the_bound() -> None:
    assert f"at most {MAX_FILES} files" in PAGE.read_text()
