"""Of pages of `docs/guides` and the concepts: what a reader has beside the page, and sees."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.prompty.worker_limits import OPEN
from perdure.protocol.run import CallApproval
from perdure.testing import ScriptedReply, ScriptedRequest, asks, says

from ..support.dev_server import free_port
from ..support.waiting import asked, wait_until
from .manual import Block
from .reader import Reader, Reply

Read = Callable[[Reader], Awaitable[None]]
READS: dict[str, Read] = {}
"""Name of a page → its reading; the reader carries out by itself the blocks that it leaves."""


def reads(*names: str) -> Callable[[Read], Read]:
    def note(read: Read) -> Read:
        READS.update(dict.fromkeys(names, read))
        return read

    return note


def plays(*replies: ScriptedReply) -> Reply:
    return lambda request: replies[request.step]


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "function", **more}


def look_up(order: str) -> str:
    """Look an order up by its number."""
    return "a kettle"


@reads("run", "session", "tool-protocols", "media")
async def _with_a_worker(page: Reader) -> None:
    page.save("report.pdf", "%PDF-1.4\n")
    (page.folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    await page.worker()


@reads("hold")
async def _hold(page: Reader) -> None:
    await page.worker()
    await page.held("ID")


@reads("tools")
async def _tools(page: Reader) -> None:
    await page.next()
    page.save_agent("desk", tools=[function("check_orders")])
    page.reply = plays(asks("check_orders", customer="Ada"), says("Checked."))
    names = page.names
    await page.worker(
        [names["check_orders"], look_up], resources={names["Shop"]: names["open_shop"]}
    )
    run = await page.start("desk.prompty")
    assert json.loads((await run.result()).messages[-2].text)["Ada-3"] == "paid"
    await page.until("payments = await bank.find")
    names["bank"] = Bank()
    await page.next()
    assert await names["look"]({}, "7") == names["Done"]("receipt 7")
    assert await names["look"]({}, "8") == names["NotDone"]()
    await page.until("await run.tool_result")
    page.save_agent("looker", tools=[function("look_up")])
    page.reply = lambda request: (
        asks("look_up", f"call_{3 - request.step}", order="7")
        if request.step < 3
        else says("Done.")
    )
    names["run"] = run = await page.start("looker.prompty")
    page.instead["RUN"] = run.id
    await run.result()
    await page.next()
    assert names["result"].text == "a kettle"


class Bank:
    async def find(self, reference: str) -> list[Any]:
        return [type("Payment", (), {"receipt": "receipt 7"})] if reference == "7" else []


@reads("agents-in-code")
async def _agents_in_code(page: Reader) -> None:
    page.elsewhere("test_agents_in_code", "perdure.agent(", "invoke_agent")
    page.save_agent("shop/sales")


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


WEATHER = """def weather(city: str) -> str:
    return f"sunny in {city}"


get_weather = weather
"""


@reads("testing-agents")
async def _testing_agents(page: Reader) -> None:
    page.elsewhere("test_recorded_run", "recorded(")
    page.elsewhere("test_in_process_documented", "def test_", '"tool_calls"')
    port = free_port()
    page.instead["8099"] = str(port)
    await page.until("threading.Event()")
    page.save("model.py", page.replaced(page.take().text))
    await page.type("python model.py &")
    await wait_until(lambda: _answers(port))
    await page.next()
    page.save("part.prompty", page.replaced((page.folder / "part.prompty").read_text()))
    await page.worker([look_up], limits=OPEN)
    run = await page.start("part.prompty")
    await run.result()
    page.names["text"] = (await page.client.get_workflow_handle(run.id).fetch_history()).to_json()


@reads("prompty-files")
async def _prompty_files(page: Reader) -> None:
    await page.worker()
    page.save_agent("judge", model=None, inputs=[{"name": "query", "kind": "string"}])
    page.instead["http://localhost:8000/v1"] = page.model.openai_endpoint


@reads("tools-mcp")
async def _tools_mcp(page: Reader) -> None:
    await page.worker(limits=OPEN)
    for name in ("TICKETS_KEY", "CRM_SECRET"):
        page.set_variable(name, "any")
    page.reply = plays(asks("find_price", title="Dracula"), says("12 euros."))


@reads("tools-openapi")
async def _tools_openapi(page: Reader) -> None:
    page.elsewhere("test_openapi_page", "kind: openapi", "FastAPI()")


@reads("tool-kinds")
async def _tool_kinds(page: Reader) -> None:
    page.elsewhere("test_own_kind", "kind: sqlite", "class Tables", "sqlite_perdure")


def _of_python(request: ScriptedRequest) -> ScriptedReply:
    """An object with all members that any of the page's types has."""
    wanted = json.dumps(request.body.get("response_format") or "")
    if "degrees" in wanted:
        return says('{"city": "Paris", "degrees": 20}' if "city" in wanted else '{"degrees": 20}')
    return says("Sunny.", delay=0.3)


@reads("python")
async def _python(page: Reader) -> None:
    names = page.names
    page.save("tools.py", WEATHER)
    page.save_agent("weather")
    page.save_agent("report", inputs=[{"name": "subject", "kind": "string"}])
    page.reply = _of_python
    await page.until("async def main")
    text = page.take().text
    assert text.endswith("asyncio.run(main())\n")
    exec(text.removesuffix("asyncio.run(main())\n"), names)
    worker = asyncio.create_task(names["main"]())
    page.stack.callback(worker.cancel)
    await page.through("async def ask")
    await names["ask"]()
    run = await page.start("weather.prompty")
    await names["look_again"](run.id)
    await page.through("async def print_failures")
    await names["print_failures"]()
    await page.until("result.messages")
    names["result"] = await run.result()
    await page.until("payments.refund")
    worker.cancel()
    await asyncio.wait([worker])
    await page.until("summarize")
    names["summarize"] = lambda messages: "short"
    await page.run_worker()
    await page.next()
    await page.run_worker()
    await page.rest()
    await page.run_worker()
    await page.client.get_schedule_handle("nightly").delete()
    assert (names["weather"].degrees, names["place"].degrees) == (20, 20)


@reads("schedules")
async def _schedules(page: Reader) -> None:
    page.save_agent("reporter", inputs=[{"name": "team", "kind": "string"}])
    await page.rest()
    await page.client.get_schedule_handle("report").delete()


@reads("sessions")
async def _sessions(page: Reader) -> None:
    page.save_agent("helper")


@reads("chat")
async def _chat(page: Reader) -> None:
    page.save_agent("helper")
    page.reply = lambda request: says(
        "Bo is 20." if "Bo" in request.messages[-1].text else "Ann is 30."
    )


@reads("approvals")
async def _approvals(page: Reader) -> None:
    names = page.names
    await page.through("approval=large")
    refund = names["refund"]
    await page.until("def approve(pending")
    names["refund"] = refund
    page.save_agent("desk", tools=[function("refund", perdure={"approval": "always"})])
    page.reply = plays(asks("refund", order="7", amount=50), says("Refunded."))
    await page.next()
    assert names["answer"] == "Refunded."
    page.save_agent("clerk", tools=[function("look_up", perdure={"approval": "always"})])
    page.reply = plays(asks("look_up", order="7"), says("A kettle."))
    await page.worker([look_up])
    names["run"] = run = await page.start("clerk.prompty")
    await asked(run)
    await page.next()
    assert (await run.result()).output == "A kettle."

    def updates(block: Block) -> None:
        for line in block.text.splitlines():
            CallApproval.model_validate_json(line)

    page.reads = updates


@reads("waiting")
async def _waiting(page: Reader) -> None:
    await page.worker()
    for text in ("ls --status held", "RUN --max", "RUN --with"):
        page.before[text] = lambda: page.held("RUN")
    await page.until("GoOnError")
    page.before.clear()
    page.names["run"] = await page.held("RUN")
    await page.rest()


@reads("fork")
async def _fork(page: Reader) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        if request.step < 5:
            return asks("look_up", order=str(request.step))
        return says(f"{'Your' if request.body['model'] == 'gpt-5' else 'The'} parcel is in Lyon.")

    names, page.reply = page.names, reply
    page.save_agent("support", tools=[function("look_up")])
    await page.worker([look_up])
    names["run"] = run = await page.start("support.prompty", id="support-1f2e3d4c")
    await run.result()
    lines = [json.dumps(line) async for line in run.export()]
    page.save("bug-17.jsonl", "\n".join(lines) + "\n")
    page.instead["ID"] = run.id
