"""Of pages of `docs/operations` and the other ones: what a reader has beside the page, and sees."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import yaml
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload

from perdure.client import RunHandle, start_run
from perdure.gateway.identity import TokenFile
from perdure.payloads.converter import data_converter
from perdure.payloads.encryption import Encryption
from perdure.providers.prices import read_table
from perdure.testing import asks, says
from perdure.worker import create_worker

from ..support.documents import ROOT
from ..support.needs import lacking, program
from ..support.typescript_worker import SOURCES, node_modules
from ..support.waiting import asked
from .manual import Block
from .manual_guides import Read, function, look_up, plays
from .reader import Reader, talk

READS: dict[str, Read] = {}
KEY = f"2026-11:{'A' * 43}="


def reads(*names: str) -> Any:
    def note(read: Read) -> Read:
        READS.update(dict.fromkeys(names, read))
        return read

    return note


def find_books(topic: str) -> str:
    """Find books."""
    return "Keeping bees"


def refund(order: str) -> str:
    """Refund an order."""
    return "refunded"


async def _done(page: Reader, **more: Any) -> RunHandle[Any]:
    """A run that has ended, with a call of a tool."""
    page.save_agent("support", tools=[function("look_up")])
    page.reply = plays(
        asks("look_up", order="7"), says("In Lyon.", input_tokens=900, cached_input_tokens=800)
    )
    async with create_worker(page.client, tools=[look_up]):
        run = await page.start("support.prompty", **more)
        await run.result()
    page.instead["ID"] = run.id
    return run


@reads("README")
async def _readme(page: Reader) -> None:
    await page.until("perdure worker")
    page.reply = lambda request: says("Keeping bees.", delay=3)
    page.instead |= {"ID": "readme-1", "…": "--id readme-1 -i question=bees"}


@reads("gateway", "page")
async def _gateway(page: Reader) -> None:
    for name in ("ANNS_TOKEN", "OPERATORS_TOKEN"):
        page.set_variable(name, f"the value of {name}")

    def tokens(block: Block) -> None:
        page.save("tokens.yaml", block.text)
        TokenFile(page.folder / "tokens.yaml")

    page.instead["the embedded server"] = "the server"
    await page.next()
    await page.stop()
    page.reads = tokens


@reads("web-servers")
async def _web_servers(page: Reader) -> None:
    names = page.names
    page.elsewhere("test_web_server", "from fastapi import", "perdure dev")
    page.reply = plays(asks("look_up", order="7"), says("A kettle."))
    page.set_variable("PERDURE_VOUCH_KEY", KEY)
    await page.through("Voucher")
    await page.worker([look_up, refund])
    user = SimpleNamespace(name="ann", roles=["finance"])
    run = await names["ask"](page.client, user, "Where is order 7?")
    assert (await run.result()).output == "A kettle."
    page.save_agent("asking", tools=[function("look_up", perdure={"approval": "always"})])
    run = await page.start("asking.prompty")
    [call] = await asked(run)
    await names["approve"](page.client, user, run.id, call)
    assert (await run.result()).output == "A kettle."


@reads("dialects")
async def _dialects(page: Reader) -> None:
    page.elsewhere("test_own_dialect", "class Lines", "perdure.dialects", "curl")


@reads("kaos")
async def _kaos(page: Reader) -> None:
    page.elsewhere("test_memory_documented", "kaos:", "perdure.interop.kaos", "DEBUG_MOCK")


@reads("octopus")
async def _octopus(page: Reader) -> None:
    page.names["run"] = await _done(page)


@reads("other-agents")
async def _other_agents(page: Reader) -> None:
    page.elsewhere("test_a2a", "a2a.server")
    for name in ("OFFICE_KEY", "TEAM"):
        page.set_variable(name, "any")
    page.save_agent("clerk")
    page.save_agent("researcher")
    page.names["run"] = await _done(page)


@reads("temporal-interop", "watching", "security")
async def _nothing(page: Reader) -> None:
    pass


@reads("events")
async def _events(page: Reader) -> None:
    page.names["run"] = await _done(page)


@reads("providers")
async def _providers(page: Reader) -> None:
    page.elsewhere("test_outgoing_own_dialect", "lumen_id", "perdure.server_dialects")
    page.elsewhere("test_base_documented", "perdure.providers")
    for name in ("MODEL_KEY", "AZURE_OPENAI_API_KEY"):
        page.set_variable(name, "any")
    page.instead["http://gpu:8000/v1"] = page.model.openai_endpoint


@reads("caches")
async def _caches(page: Reader) -> None:
    await _done(page, id="support-1f2e3d4c")


@reads("cost")
async def _cost(page: Reader) -> None:
    await _done(page)
    await page.worker([look_up])

    def prices(block: Block) -> None:
        page.save("prices.yaml", block.text)
        assert read_table(page.folder / "prices.yaml")

    await page.until("openai/gpt-5")
    page.reads = prices


@reads("credentials")
async def _credentials(page: Reader) -> None:
    page.set_variable("VAULT_URL", "http://127.0.0.1:9")


@reads("deletion")
async def _deletion(page: Reader) -> None:
    (page.folder / "storage").mkdir()
    storage = f"file://{page.folder}/storage"
    page.set_variable("PERDURE_STORAGE", storage)
    await page.type(f"export PERDURE_STORAGE={storage}")
    await _done(page)
    await page.next()
    page.reply = plays(asks("look_up", order="7"), says("In Lyon."))
    await page.worker([look_up])
    await (await page.start("support.prompty", id="researcher-1f2e3d4c")).result()
    await page.next()
    sqlite3.connect(page.folder / "temporal.db").close()
    page.instead["~/.local/share/perdure/temporal.db"] = "temporal.db"
    page.instead["/backups/monday.db"] = "monday.db"


@reads("deploys", "upgrades")
async def _deploys(page: Reader) -> None:
    page.save("new_tools.py", (page.folder / "tools.py").read_text())
    page.names["search"] = find_books
    run = await start_run(page.client, "agent.prompty", task_queue="deploys")
    page.instead["RUN"] = run.id
    # The current version of a queue takes the tasks of all other workers of the queue.
    page.instead["--deployment agents"] = "--deployment agents --task-queue deploys"


@reads("encryption")
async def _encryption(page: Reader) -> None:
    run = await _done(page)
    page.save("shop/codecs.py", (ROOT / "tests" / "support" / "shop_codec.py").read_text())
    page.set_variable("PERDURE_ENCRYPTION_KEY", KEY)
    page.instead |= {"ID": run.id, "https://codec.example.com": "http://127.0.0.1:8500"}
    page.instead["PERDURE_CODEC_TOKEN=…"] = "PERDURE_CODEC_TOKEN=a-long-token-of-this-reader"
    page.instead["--host 0.0.0.0"] = "--port 8500"
    await page.until("--codec shop.codecs")
    await page.stop()
    await page.type("unset PERDURE_ENCRYPTION_KEY")
    await page.next()
    await page.stop()
    await page.type(f"export PERDURE_ENCRYPTION_KEY={KEY}")
    await page.until("class EncryptionCodec")
    page.reads = partial(_typescript_codec, page)


async def _typescript_codec(page: Reader, block: Block) -> None:
    """The codec opens a payload of Python's, and Python opens one of its own."""
    if (modules := node_modules()) is None:
        lacking("@temporalio/worker (npm install @temporalio/worker, with NODE_PATH)")
    (page.folder / "node_modules").symlink_to(modules)
    page.save("codec.ts", block.text)
    page.save("drive.ts", DRIVE)
    converter = data_converter(encryption=Encryption.parse(KEY))
    [sealed] = await converter.encode(["from Python"])
    run = ["node", str(SOURCES / "run.cjs"), "drive.ts", KEY, sealed.SerializeToString().hex()]
    answer = await asyncio.to_thread(
        subprocess.run, run, cwd=page.folder, check=True, capture_output=True, text=True
    )
    opened, own = answer.stdout.splitlines()
    assert opened == '"from Python"'
    assert await converter.decode([Payload.FromString(bytes.fromhex(own))]) == ["from TypeScript"]


DRIVE = """
const { EncryptionCodec } = require('./codec.ts');
const { temporal } = require('@temporalio/proto');
const Payload = temporal.api.common.v1.Payload;
const [id, key] = process.argv[3].split(':');
const codec = new EncryptionCodec({ [id]: Buffer.from(key, 'base64') });
const json = (value) => ({
  metadata: { encoding: Buffer.from('json/plain') },
  data: Buffer.from(JSON.stringify(value)),
});
(async () => {
  const [opened] = await codec.decode([Payload.decode(Buffer.from(process.argv[4], 'hex'))]);
  console.log(Buffer.from(opened.data).toString());
  const [sealed] = await codec.encode([json('from TypeScript')]);
  console.log(Buffer.from(Payload.encode(sealed).finish()).toString('hex'));
})();
"""


@reads("history-size")
async def _history_size(page: Reader) -> None:
    await _done(page)


@reads("metrics")
async def _metrics(page: Reader) -> None:
    def queries(block: Block) -> None:
        lines = [line for line in block.text.splitlines() if not line.startswith("#")]
        rules = [{"record": f"query:{n}", "expr": line} for n, line in enumerate(lines)]
        page.save("rules.yml", yaml.safe_dump({"groups": [{"name": "page", "rules": rules}]}))
        promtool = program("promtool", package="prometheus")
        subprocess.run([promtool, "check", "rules", "rules.yml"], cwd=page.folder, check=True)

    page.names["find_books"] = find_books
    page.instead["0.0.0.0:9464"] = "127.0.0.1:9465"
    await page.until("sum by")
    await page.stop()
    page.reads = queries
    await page.until("HISTOGRAM_BUCKETS")
    page.instead["127.0.0.1:9464"] = "127.0.0.1:9465"


@reads("operating")
async def _operating(page: Reader) -> None:
    page.elsewhere("test_process_end", "answer_of")
    run = await _done(page)
    await page.worker([look_up])
    page.instead |= {"QUEUE": "other", "NAME": "support"}
    page.instead["--status failed --closed-since 2h"] = "--status failed --agent none"
    await page.until("perdure delete")
    page.reply = talk
    page.instead["--session ID"] = "--session none"
    await page.until("perdure approve")
    page.save_agent("clerk", tools=[function("look_up", perdure={"approval": "always"})])
    page.reply = plays(asks("look_up", "call_1", order="7"), says("A kettle."))
    run = await page.start("clerk.prompty")
    await asked(run)
    page.instead |= {"ID": run.id, "CALL": "call_1"}


@reads("pacing")
async def _pacing(page: Reader) -> None:
    page.names |= {"search": find_books, "agent": "agent.prompty"}
    await page.through("model_rate")
    await page.run_worker()


@reads("temporal-ui")
async def _temporal_ui(page: Reader) -> None:
    page.instead["added"] = "exists"


@reads("traces")
async def _traces(page: Reader) -> None:
    await _done(page, id="support-1f2e3d4c")
    page.names |= {"exporter": InMemorySpanExporter(), "get_weather": find_books}
    page.instead["http://localhost:4318/v1/traces"] = "file:///dev/null"
    await page.through("tracer_provider")
    await page.run_worker()


@reads("worker-limits")
async def _worker_limits(page: Reader) -> None:
    await page.rest()


@reads("changing-the-loop")
async def _changing_the_loop(page: Reader) -> None:
    page.names["self"] = SimpleNamespace(_effects=SimpleNamespace(version=2))


@reads("inside-a-run")
async def _inside_a_run(page: Reader) -> None:
    @activity.defn
    async def answer() -> str:
        return "yes"

    page.names |= {"workflow": workflow, "timedelta": timedelta, "answer": answer}
