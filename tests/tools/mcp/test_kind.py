"""`connection: {kind: reference}`: the worker's owner says which server a name stands for."""

from __future__ import annotations

import pytest

from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.tools import ToolOfferError, register_mcp_server
from tests.support.hosts import serving
from tests.support.mcp_server import make_server
from tests.support.mcp_stage import Tools

REFERENCE = {
    "name": "filesystem",
    "kind": "mcp",
    "connection": {"kind": "reference", "name": "fs-server"},
}


async def test_a_server_that_the_process_has_registered() -> None:
    with serving(make_server().streamable_http_app()) as url:
        register_mcp_server("fs-server", {"endpoint": f"{url}/mcp", "apiKey": "planted-secret"})
        tools = await Tools(REFERENCE).ask()
        assert "echo" in tools.names
        assert (await tools.call("echo", text="3")).text == "3"
        await tools.kind.close()


async def test_a_name_that_nobody_has_registered() -> None:
    declared = {**REFERENCE, "connection": {"kind": "reference", "name": "nobodys"}}
    with pytest.raises(ToolOfferError) as caught:
        await Tools(declared).ask()
    assert "this worker has no MCP server 'nobodys'" in str(caught.value)
    assert "register_mcp_server('nobodys', {'endpoint': …})" in str(caught.value)


@pytest.mark.parametrize(
    "server", [{}, {"command": ["sh"]}, {"endpoint": "host"}, {"kind": "reference", "x": 1}]
)
def test_what_is_no_server(server: JsonObject) -> None:
    with pytest.raises(ConfigurationError, match="The MCP server 'wrong'"):
        register_mcp_server("wrong", server)
