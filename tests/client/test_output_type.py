"""The rules of a caller's type: the model is told when its answer breaks them (§8.8)."""

from __future__ import annotations

from uuid import uuid4

from pydantic import BaseModel, Field, field_validator
from temporalio.client import Client

from perdure.client import session, start_run
from perdure.testing import ScriptedModel, says
from perdure.worker import create_worker

from ..support.agents import scripted_agent


class Place(BaseModel):
    city: str
    degrees: int = Field(ge=-90)
    note: str = "none"

    @field_validator("city")
    @classmethod
    def _is_upper_case(cls, city: str) -> str:
        if not city.isupper():
            raise ValueError("write it in capitals")
        return city


WRONG = says('{"city": "Paris", "degrees": -100, "note": null}')
RIGHT = says('{"city": "PARIS", "degrees": 20, "note": null}')
TOLD = "- $.city: write it in capitals\n- $.degrees: Input should be greater than or equal to -90\n"


async def test_so_do_runs_and_sessions_whose_worker_is_here(client: Client) -> None:
    with ScriptedModel([WRONG, RIGHT]) as model:
        agent, queue = scripted_agent(model, instructions="Where?"), f"test-{uuid4()}"
        async with create_worker(client, task_queue=queue):
            run = await start_run(client, agent, task_queue=queue, output_type=Place)
            assert (await run.result()).output.city == "PARIS"
            talk = session(client, agent, queue, task_queue=queue, output_type=Place)
            assert (await (await talk.send("Where?")).result()).output.city == "PARIS"
    assert TOLD in model.requests[1].messages[-1].text
    assert TOLD in model.requests[3].messages[-1].text
