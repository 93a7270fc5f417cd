"""`RunHandle.stream_output`: the answer as far as it is written, then the checked one."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from perdure import RunOptions, create_worker, start_run
from perdure.client.output_type import outputs_of
from perdure.client.partial_output import partial_value
from perdure.testing import asks, says

from ..support.agents import QUESTION, Scripted, scripted_agent


class Trip(BaseModel):
    title: str
    cities: list[str]
    days: dict[str, int]


TRIP = {"title": "North", "cities": ["Oslo", "Bergen"], "days": [{"key": "Oslo", "value": 2}]}
WHOLE = Trip(title="North", cities=["Oslo", "Bergen"], days={"Oslo": 2})


@pytest.mark.parametrize(
    ("output_type", "text", "seen"),
    [
        (Trip, '{"title": "No', {"title": "No"}),
        (Trip, '{"title": "North", "cities": ["Os', {"title": "North", "cities": ["Os"]}),
        (Trip, '{"days": [{"key": "Oslo", "value": 2}, {"key": "Ber', {"days": {"Oslo": 2}}),
        (list[str], '{"answer": ["Oslo", "Be', ["Oslo", "Be"]),
        (list[str], '{"ans', None),
        (dict[str, int], '{"answer": [{"key": "Oslo", "val', {}),
        (Trip | str, '{"answer": "I do n', "I do n"),
        (Trip, "Let me look", None),
        (Trip, "", None),
    ],
)
def test_the_beginning_of_an_answer(output_type: Any, text: str, seen: Any) -> None:
    assert partial_value(text, outputs_of(output_type)) == seen


async def test_it_comes_while_it_is_written(client: Client, scripted: Scripted) -> None:
    wrong = says('{"title": "South", "cities": 1, "days": []}', chunk_delay=0.05)
    model = scripted(
        [asks("look", text="Let me see."), wrong, says(json.dumps(TRIP), chunk_delay=0.08)]
    )
    queue = f"test-{uuid4()}"
    async with create_worker(client, task_queue=queue, tools={"look": lambda text="": "fine"}):
        run = await start_run(
            client,
            scripted_agent(model, ["look"]),
            messages=QUESTION,
            task_queue=queue,
            output_type=Trip,
            options=RunOptions(stream=True),
        )
        *parts, last = [value async for value in run.stream_output()]
    assert last == WHOLE
    of_last = [part for part in parts if part.get("title", "North")[:1] == "N"]
    assert len(of_last) > 2
    assert all(before.keys() <= after.keys() for before, after in pairwise(of_last))
    assert [value async for value in run.stream_output()][-1] == WHOLE, "of a closed run too"
