"""A worker that its owner builds, with the plugin, works as one of `create_worker`."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker, WorkerConfig

from perdure import invoke_agent_async
from perdure.client import start_run
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.options import RunOptions
from perdure.testing import ScriptedModel, asks, call, says
from perdure.worker import PerdurePlugin, create_worker
from perdure.worker.plugin import WORKER_DEFAULTS

from ..support.agents import QUESTION, scripted_agent, tool_texts

TEXT = " ".join(f"word{number}" for number in range(40))


def shout(text: str = "") -> str:
    return text.upper()


def whisper(text: str = "") -> str:
    return text.lower()


class Namer(SimplePlugin):
    """Somebody else's plugin, of clients and of workers."""

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        return {**super().configure_worker(config), "identity": "named"}


def plain_worker(client: Client, task_queue: str, **options: Any) -> Worker:
    return Worker(
        client, task_queue=task_queue, plugins=[PerdurePlugin(tools={"shout": shout})], **options
    )


def options_of(worker: Worker) -> JsonObject:
    config = worker.config(active_config=True)
    return {name: config.get(name) for name in WORKER_DEFAULTS}


async def test_runs_agents_and_tells_watchers_what_the_model_says(
    client: Client, task_queue: str
) -> None:
    with ScriptedModel([asks(call("shout", text="x")), says(TEXT, chunk_delay=0.06)]) as model:
        async with plain_worker(client, task_queue):
            run = await start_run(
                client,
                scripted_agent(model, ["shout"]),
                messages=QUESTION,
                task_queue=task_queue,
                id=f"run-{uuid.uuid4()}",
                options=RunOptions(stream=True),
            )
            tokens = [event.data["token"] async for event in run.stream() if event.type == "token"]
            assert (await run.result()).output == "".join(tokens) == TEXT
    assert len(tokens) > 3


@pytest.mark.parametrize("build", [plain_worker, create_worker])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"max_heartbeat_throttle_interval": timedelta(seconds=1)},
        # What the SDK would take anyway, but asked for by name.
        {
            "sticky_queue_schedule_to_start_timeout": timedelta(seconds=10),
            "max_cached_workflows": 1000,
        },
    ],
)
async def test_has_the_defaults_except_for_what_it_was_given(
    client: Client, task_queue: str, build: Any, given: JsonObject
) -> None:
    assert options_of(build(client, task_queue=task_queue, **given)) == WORKER_DEFAULTS | given


async def test_a_worker_of_a_client_with_the_plugin_is_made_once_and_has_what_the_plugin_has(
    address: str, task_queue: str
) -> None:
    client = await Client.connect(
        address, plugins=[PerdurePlugin(tools={"shout": shout}, registered_tools=False)]
    )
    both = asks(call("shout", "call_1", text="x"), call("whisper", "call_2", text="X"))
    with ScriptedModel([both, says("done")]) as model:
        agent = scripted_agent(model, ["shout", "whisper"])
        async with create_worker(client, task_queue=task_queue, tools=[whisper]) as worker:
            assert options_of(worker) == WORKER_DEFAULTS
            run = await start_run(
                client, agent, messages=QUESTION, task_queue=task_queue, id=f"run-{uuid.uuid4()}"
            )
            assert tool_texts((await run.result()).messages) == ["X", "x"]
        assert (
            await invoke_agent_async(agent, tools=[whisper], client=client, messages=QUESTION)
            == "done"
        )


@pytest.mark.filterwarnings("ignore:The same plugin type:UserWarning")
async def test_two_plugins_of_one_worker_are_an_error_that_says_what_to_do(
    address: str, task_queue: str
) -> None:
    client = await Client.connect(address, plugins=[PerdurePlugin()])
    with pytest.raises(ConfigurationError, match="its client's and its own: .*create_worker"):
        plain_worker(client, task_queue)


@pytest.mark.parametrize(
    "plugins", [[Namer("namer")], [PerdurePlugin(), Namer("namer")]], ids=["plain", "with ours"]
)
async def test_other_plugins_of_the_client_stay_those_of_the_worker(
    address: str, task_queue: str, plugins: list[SimplePlugin]
) -> None:
    client = await Client.connect(address, plugins=plugins)
    worker = create_worker(client, task_queue=task_queue)
    assert worker.config(active_config=True).get("identity") == "named"
