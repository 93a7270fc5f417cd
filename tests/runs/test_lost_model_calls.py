"""A model call whose workers are lost again and again: the run waits for one that stays."""

from __future__ import annotations

import importlib
import uuid
from pathlib import Path

import pytest

from perdure.agents import Agent
from perdure.errors import LimitExceededError, RunCancelled

from ..support.stage import Stage
from ..support.waiting import wait_for

DYING = """
from datetime import timedelta
from temporalio.exceptions import ApplicationError
from perdure.messages import Message, ModelReply, Usage
from perdure.providers import Provider

lost = 0
most = 25


class Dying(Provider):
    '''The worker of its first calls is stopped in the middle of them, as Temporal's SDK reports that.'''

    def to_request(self, agent, messages, *, extra_tools=(), may_call_tools=True):
        return {}

    async def call(self, agent, request, options):
        global lost
        if lost < most:
            lost += 1
            soon = timedelta(milliseconds=1)
            raise ApplicationError("worker is shutting down", type="WorkerShutdown", next_retry_delay=soon)
        return {}

    def reply(self, agent, response):
        usage = Usage(input_tokens=4, total_tokens=4)
        return ModelReply(message=Message.assistant(f"after {lost} lost workers"), usage=usage)

    def process(self, agent, response):
        return self.reply(agent, response).message.text


def made(key, api_type):
    return Dying(key)
"""


@pytest.fixture
def dying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent of a provider of its own."""
    name = f"dying_{uuid.uuid4().hex}"
    about = tmp_path / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[perdure.providers]\n{name} = {name}:made\n")
    (tmp_path / f"{name}.py").write_text(DYING)
    monkeypatch.syspath_prepend(tmp_path)
    return Agent.model_validate({"name": "tested", "model": {"id": "m", "provider": name}})


async def test_a_run_outlives_any_number_of_lost_workers(stage: Stage, dying: Agent) -> None:
    async with stage.worker():
        run = await stage.start(dying)
        result = await run.result()
        (complete,) = [each.data for each in await run.events() if each.type == "llm_complete"]
    assert result.output == "after 25 lost workers"
    assert (result.usage.lost_tokens, result.usage.input_tokens) == (100, 104)
    assert complete["lostAttempts"] == 25


async def test_it_can_be_cancelled_and_its_time_holds(
    stage: Stage, dying: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dying.model is not None
    module = importlib.import_module(str(dying.model.provider))
    module.most = 10**9

    async def is_lost() -> bool:
        return bool(module.lost > 25)

    async with stage.worker():
        timed = await stage.start(dying, max_seconds=0.5)
        with pytest.raises(LimitExceededError, match="max_seconds"):
            await timed.result()
        module.lost = 0
        run = await stage.start(dying)
        await wait_for(is_lost)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
