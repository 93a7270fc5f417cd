"""A server that reports progress without end: what its call says comes through, and others have
their turn.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from perdure.tool_calls import ToolProgress
from perdure.tools.context import ToolContext
from perdure.tools.mcp.progress import MAX_REPORTING, with_few_reports
from tests.support.mcp_stage import Tools

REPORTS = 5000
SERVER = """
import json, sys

def answer(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "flood", "version": "1"}}
            answer(asked["id"], {"protocolVersion": asked["params"]["protocolVersion"], **info})
        case "tools/list":
            answer(asked["id"], {"tools": [{"name": "flood", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            for number in range(REPORTS):
                told = {"progressToken": asked["params"]["_meta"]["progressToken"], "progress": number}
                print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}))
            answer(asked["id"], {"content": [{"type": "text", "text": "done"}]})
        case _ if "id" in asked:
            error = {"code": -32601, "message": "no such method"}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""


async def test_of_a_flood_of_reports_ten_a_second_are_passed_on(tmp_path: Path) -> None:
    server = tmp_path / "flood.py"
    server.write_text(SERVER.replace("REPORTS", str(REPORTS)))
    options = {"command": sys.executable, "args": [str(server)]}
    tools = await Tools({"name": "tests", "kind": "mcp", "options": options}).ask()
    told: list[ToolProgress] = []
    result = await tools.call("flood", ToolContext(report=told.append))
    await tools.kind.close()
    assert result.text == "done"
    assert told[0].done == 0
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert len(told) < REPORTS / 10


async def test_calls_that_end_in_errors_leave_their_reports_to_others() -> None:
    @asynccontextmanager
    async def server() -> AsyncIterator[Any]:
        yield received, None

    to_client, received = anyio.create_memory_object_stream[Any](0)
    async with to_client, with_few_reports(server(), lambda: None) as (incoming, _):
        for id in range(2 * MAX_REPORTING):
            fault = types.ErrorData(code=-32603, message="broken")
            report = {"progressToken": id, "progress": 1}
            for message in (
                types.JSONRPCNotification(
                    jsonrpc="2.0", method="notifications/progress", params=report
                ),
                types.JSONRPCError(jsonrpc="2.0", id=id, error=fault),
            ):
                await to_client.send(SessionMessage(message))
                with anyio.fail_after(5):
                    passed = await incoming.receive()
                assert isinstance(passed, SessionMessage)
                assert passed.message is message
