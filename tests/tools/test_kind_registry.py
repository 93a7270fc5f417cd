"""The process-wide registries (§11)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from perdure.tools import (
    clear_tool_handlers,
    clear_tools,
    get_tool,
    get_tool_handler,
    register_tool,
    register_tool_handler,
)


def test_tools_are_kept_by_name_until_cleared() -> None:
    register_tool("shout", str.upper)
    assert get_tool("shout") is str.upper
    assert get_tool_handler("shout") is None
    clear_tools()
    assert get_tool("shout") is None


def test_handlers_are_kept_by_kind_until_cleared() -> None:
    register_tool_handler("mcp", print)
    assert get_tool_handler("mcp") is print
    clear_tool_handlers()
    assert get_tool_handler("mcp") is None


def test_many_threads_may_register_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: register_tool(f"t{n}", str), range(500)))
    assert all(get_tool(f"t{n}") is str for n in range(500))
    clear_tools()
