"""`Toolset`: functions and declarations with a prefix, filtered, put together, and given wherever
tools are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

import perdure
from perdure import ConfigurationError, Toolset, tool
from perdure.json_types import JsonObject
from perdure.prompty.portable import agent_to_dict
from perdure.testing import ScriptedModel, asks, call, run_in_process, says
from perdure.tools import clear_tools
from perdure.tools.handlers import load_tools

from ..support.documents import ROOT
from ..support.mcp_stage import on_stdio


@tool(needs_approval=False, timeout=7)
def find(name: str) -> str:
    """Find a customer."""
    return f"{name} lives in Oslo"


def delete(name: str) -> str:
    """Delete a customer."""
    raise AssertionError(name)


clear_tools()
SHOP = ROOT / "examples/help_desk/shop.yaml"
CRM = Toolset(find, delete).without("delete").prefixed("crm")


def offered(model: ScriptedModel) -> list[str]:
    return [each["function"]["name"] for each in model.requests[0].body["tools"]]


def agent_of(model: ScriptedModel, tools: Any, **more: Any) -> perdure.Agent:
    connection = {"endpoint": model.openai_endpoint, "apiKey": "${env:PATH}"}
    return perdure.agent("openai/gpt-5", tools=tools, connection=connection, **more)


def test_names_carry_the_prefix_and_the_functions_stay() -> None:
    both = Toolset(CRM, delete, {"name": "ask_user", "kind": "builtin"})
    assert both.functions == {"crm_find": find, "delete": delete}
    assert Toolset(both.prefixed("shop")).only("shop_crm_find").functions == {"shop_crm_find": find}
    [declared] = both.prefixed("shop").declarations
    assert declared["perdure"] == {"prefix": "shop"}


def test_a_clash_suggests_a_prefix_and_a_name_that_is_not_there_names_the_others() -> None:
    def find(name: str) -> str:
        return name

    with pytest.raises(
        ConfigurationError,
        match=re.escape("give it a prefix, such as Toolset(function).prefixed('shop')"),
    ):
        Toolset(Toolset(find), globals()["find"])
    assert list(Toolset(CRM, find).functions) == ["crm_find", "find"]
    with pytest.raises(
        ConfigurationError, match="no function is named 'fnd'.* Functions of this toolset: crm_find"
    ):
        CRM.only("fnd")


@pytest.mark.parametrize(
    "tools", [CRM, [CRM], [CRM, delete]], ids=["alone", "in a list", "beside a function"]
)
def test_in_process(tools: Any) -> None:
    script = [asks("crm_find", name="Ada"), says("Oslo")]
    result = run_in_process(
        perdure.agent("openai/gpt-5", tools=tools), inputs={"question": "?"}, model=script
    )
    assert [message.text for message in result.messages[-2:]] == ["Ada lives in Oslo", "Oslo"]


async def test_one_call_has_it_with_a_server_of_mcp_and_an_api_beside_it(client: Client) -> None:
    tests = Toolset(on_stdio()).only("echo").prefixed("office")
    shop = {"name": "orders", "kind": "openapi", "specification": SHOP.name}
    orders = Toolset(shop).without("refundOrder").prefixed("shop")
    calls = [call("crm_find", name="Ada"), call("office_echo", text="hello"), call("office_fail")]
    with ScriptedModel([asks(*calls), says("Oslo")]) as model:
        agent = agent_of(model, [], base_dir=SHOP.parent)
        assert (
            await perdure.invoke_agent_async(agent, "?", [CRM, tests, orders], client=client)
            == "Oslo"
        )
    assert offered(model) == ["office_echo", "shop_getOrder", "crm_find"]
    results = [message.text for message in model.requests[1].messages[-3:]]
    assert results[:2] == ["Ada lives in Oslo", "hello"]
    assert "office_fail" in results[2]


def test_the_command_line_loads_toolsets_of_a_module(tmp_path: Path) -> None:
    file = tmp_path / "shop_tools.py"
    file.write_text(
        "from perdure import Toolset\ndef find(name: str) -> str: ...\ncrm = "
        "Toolset(find).prefixed('crm')\n"
    )
    for source in (str(file), f"{file}:crm"):
        assert list(load_tools(source)) == ["crm_find"]


def test_the_page_shows_one_agent_in_code_and_in_a_file(tmp_path: Path) -> None:
    page = (
        (SHOP.parents[2] / "docs" / "guides" / "tools.md")
        .read_text(encoding="utf-8")
        .partition("\n## Toolsets\n")[2]
    )
    code, file, listed = re.findall(r"```(?:python|yaml)[^\n]*\n(.*?)```", page, re.S)[:3]
    names: JsonObject = {}
    exec(code, names)
    (tmp_path / "crm.yaml").write_text(listed)
    (tmp_path / "clerk.prompty").write_text(f"---\nmodel: openai/gpt-5\n{file}---\nuser:\nHi.\n")
    crm, clock = agent_to_dict(perdure.load(tmp_path / "clerk.prompty"))["tools"]
    in_code = agent_to_dict(names["clerk"])["tools"]
    assert [tool for tool in in_code if tool["name"] == "clock"] == [clock]
    assert {tool["name"] for tool in in_code} == {"crm_find", "clock"}
    assert (crm["name"], crm["perdure"]) == ("find", {"prefix": "crm"})


def test_the_functions_that_prepare_tools_stay_with_a_changed_toolset() -> None:
    def chosen(tools: list[Any]) -> list[Any]:
        return tools

    desk = Toolset(perdure.agent("openai/gpt-5", tools=[find], prepare_tools=chosen))
    for toolset in (desk, desk.prefixed("crm"), desk.only("find"), desk.without("find")):
        assert toolset.prepare_tools == {"chosen": chosen}
