"""A Python type as the form of the answer: asked of the model, checked in the run, given to the
caller.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from perdure import invoke_agent_async
from perdure.agents import Agent
from perdure.client import RunOptions, get_run, start_run
from perdure.errors import ConfigurationError, OutputError
from perdure.json_types import JsonObject
from perdure.testing import says

from ..support.agents import QUESTION, Scripted, scripted_agent
from ..support.stage import Stage

T = typing.TypeVar("T")


class Day(BaseModel):
    high: Decimal
    rain: bool = False


class Weather(BaseModel):
    city: str
    sky: typing.Literal["clear", "cloudy"]
    days: list[Day]
    note: str | None = None


@dataclasses.dataclass
class Place:
    city: str
    degrees: int


OUTPUTS = [
    {"name": "city", "kind": "string"},
    {"name": "degrees", "kind": "integer", "description": "in Celsius"},
]
GOOD = '{"city": "Paris", "degrees": 31}'


async def started(stage: Stage, agent: Agent, output_type: Any, **options: Any) -> Any:
    run = await start_run(
        stage.client,
        agent,
        messages=QUESTION,
        task_queue=stage.task_queue,
        options=RunOptions(**options),
        output_type=output_type,
    )
    stage.runs.append(run)
    return run


async def test_a_type_stands_in_for_outputs(stage: Stage, scripted: Scripted) -> None:
    right = {
        "city": "Paris",
        "sky": "clear",
        "days": [{"high": "HIGH", "rain": None}],
        "note": None,
    }
    text = json.dumps(right).replace('"HIGH"', "31.1")
    wrong = json.dumps({**right, "sky": "green"})
    model = scripted([says(wrong), says(text.replace('"rain": null', '"rain": true'))])
    sparing = scripted([says(text)])
    async with stage.worker():
        first = await (await started(stage, scripted_agent(model), Weather)).result()
        second = await (await started(stage, scripted_agent(sparing), Weather)).result()
    assert first.iterations == 2
    expected = Weather(city="Paris", sky="clear", days=[Day(high=Decimal("31.1"), rain=True)])
    assert first.output == expected
    assert second.output.days[0].rain is False, "null stands for an absent value"
    asked = model.requests[0].body["response_format"]["json_schema"]["schema"]
    assert list(asked["properties"]) == ["city", "sky", "days", "note"]
    assert asked["properties"]["days"]["items"]["properties"]["high"]


async def test_a_dataclass(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says('{"city": "Paris"}'), says(GOOD)])
    async with stage.worker():
        run = await started(stage, scripted_agent(model, outputs=OUTPUTS), Place)
        result = await run.result()
        again = await get_run(stage.client, run.id, output_type=Place).result()
        plain = await get_run(stage.client, run.id).result()
    assert result.output == again.output == Place(city="Paris", degrees=31)
    assert result.iterations == 2, "what the type requires is required of the model"
    assert plain.output == {"city": "Paris", "degrees": 31}
    assert "in Celsius" in str(model.requests[0].body)


async def test_invoke_agent_gives_the_type(client: Client, scripted: Scripted) -> None:
    async def ask(output_type: type[T], *texts: str) -> T:
        agent = scripted_agent(scripted([says(text) for text in texts]))
        return await invoke_agent_async(
            agent, messages=QUESTION, client=client, output_type=output_type
        )

    assert await ask(Place, "?", GOOD) == Place("Paris", 31)
    assert await ask(str, "Blue") == "Blue"
    with pytest.raises(OutputError) as raised:
        await ask(Place, "?", "??", "???")
    assert raised.value.text == "???"


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Loose(BaseModel):
    counts: JsonObject


class Pair(BaseModel):
    pair: tuple[int, str]


class Anything(BaseModel):
    inner: Place
    value: Any


class Other(BaseModel):
    city: str
    degrees: str


@pytest.mark.parametrize(
    ("output_type", "outputs", "told"),
    [
        (Other, OUTPUTS, r'differ.*"degrees": \{"type": "string".*"degrees": \{"type": "integer"'),
        (Weather, OUTPUTS, "differ"),
        (str, OUTPUTS, "differ"),
        (Node, None, "children has no fixed form"),
        (Loose, None, "counts has no fixed form"),
        (Pair, None, "pair has no fixed form"),
        (Anything, None, "value has no fixed form"),
        (list, None, "the type has no fixed form"),
        (dict, None, "the type has no fixed form"),
        (Client, None, "no JSON form"),
    ],
)
async def test_what_can_not_be_asked_is_refused(
    client: Client, output_type: Any, outputs: Any, told: str
) -> None:
    agent = Agent.model_validate({"name": "w", "model": {"id": "m"}, "outputs": outputs})
    with pytest.raises(ConfigurationError, match=told):
        await start_run(client, agent, messages=QUESTION, output_type=output_type)
