"""The official conformance suite of MCP (npm), run as a program against a server or a client of the
tests.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

from perdure.json_types import JsonObject

from .needs import lacking, node_folder

SUITES = {
    "@modelcontextprotocol/conformance": "@modelcontextprotocol/conformance@0.1.16",
    "conformance-next": "conformance-next@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
}
"""The suites, as `npm install` is asked for them: the released one ends with 2025-11-25, the other
with 2026-07-28."""
MIN_NODE = 22


async def conformance(suite: str, folder: Path, *arguments: str) -> dict[str, dict[str, str]]:
    """What each scenario's checks have come to: "", or why they failed. `folder` takes the suite's
    results.
    """
    found = node_folder(suite)
    if found is None or shutil.which("node") is None or await _node_version() < MIN_NODE:
        lacking(
            f"NODE_PATH with `npm install node@{MIN_NODE} {SUITES[suite]}`, and its .bin in PATH"
        )
    told = await _output(
        "node", str(found / suite / "dist/index.js"), *arguments, "--output-dir", str(folder)
    )
    files = sorted(folder.glob("**/checks.json"))
    assert files, told
    return {
        _scenario(each.parent.relative_to(folder)): {
            check["id"]: _why(check) for check in json.loads(each.read_text())
        }
        for each in files
    }


async def _node_version() -> int:
    return int((await _output("node", "--version")).removeprefix("v").partition(".")[0])


async def _output(*command: str) -> str:
    pipe, both = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    process = await asyncio.create_subprocess_exec(
        *command, stdout=pipe, stderr=both, stdin=asyncio.subprocess.DEVNULL
    )
    return (await process.communicate())[0].decode()


def _scenario(folder: Path) -> str:
    """It is named `server-SCENARIO-2026-01-01T00-00-00-000Z`, without `server-` for a client's."""
    return str(folder).removeprefix("server-").rsplit("-", 6)[0]


def _why(check: JsonObject) -> str:
    return (
        check.get("errorMessage") or check["status"]
        if check["status"] in ("FAILURE", "WARNING")
        else ""
    )
