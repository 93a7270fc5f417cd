"""`kind: openapi` in runs, against a real API on loopback."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.entry import run
from perdure.client.run_input import run_input
from perdure.errors import RunError
from perdure.json_types import JsonObject
from perdure.messages import ImagePart, Message
from perdure.prompty.load import load
from perdure.protocol.outcome import RunResult
from perdure.testing import InProcessRun, ScriptedModel, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.openapi_service import KEY, PIXEL, Service, served
from ..support.recorded import everything_recorded
from ..support.stage import Stage


@pytest.fixture(scope="module")
def _served() -> Iterator[Service]:
    service = Service()
    with served(service.app) as service.url:
        yield service


@pytest.fixture
def service(_served: Service) -> Iterator[Service]:
    _served.reset()
    yield _served
    _served.release.set()


def api(service: Service, **more: Any) -> JsonObject:
    return {"name": "pets", "kind": "openapi", "specification": service.specification, **more}


def with_key(service: Service, **more: Any) -> JsonObject:
    connection = {"kind": "key", "endpoint": service.url, "apiKey": "${env:PETS_API_KEY}"}
    return api(service, connection=connection, **more)


def results(result: RunResult) -> list[Message]:
    return [message for message in result.messages if message.role == "tool"]


async def test_every_place_and_body_end_to_end(
    stage: Stage, scripted: Scripted, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PETS_API_KEY", KEY)
    pet = {"name": "Rex", "age": 3, "parents": [{"name": "Mia", "parents": []}]}
    calls = [
        call("getPet", **{"pet_id": "a b;ü", "tag": ["x", "y&z"], "x-note": "hi"}),
        call("addPet", **pet),
        call("sign", title="T", n=[1, 2]),
        call("picture"),
        call("hello"),
        call("getPet", pet_id="none"),
        call("getPet", pet_id=7),
    ]
    model = scripted([asks(*calls), says("done")])
    agent = scripted_agent(model, [with_key(service, options={"exclude": ["slowPost"]})])
    async with stage.worker():
        run = await stage.start(agent)
        result = await run.result()
    told = results(result)
    assert json.loads(told[0].text) == {
        "id": "a b;ü",
        "tags": ["x", "y&z"],
        "note": "hi",
    }
    assert json.loads(told[1].text)["parents"][0]["name"] == "Mia"
    assert json.loads(told[2].text) == {"title": "T", "n": [1, 2]}
    assert told[3].parts == [
        ImagePart.model_validate(
            {"source": base64.b64encode(PIXEL).decode(), "mediaType": "image/png"}
        )
    ]
    assert told[4].text == "Hello, Zoë"
    assert told[5].text == (
        'Error: Tool \'getPet\' failed: GET /pets/{pet_id} answered 404 Not Found: {"detail":"no '
        'such pet"}'
    )
    assert (
        told[6].text == "Error: Invalid arguments for tool 'getPet': 'pet_id' must be string, got 7"
    )
    assert service.calls["GET /openapi.json"] == 1
    assert len(service.keys) == 1
    assert not [
        data for data in await everything_recorded(stage.client, run.id) if KEY.encode() in data
    ]


YAML = """
openapi: 3.0.3
info: {title: Pets, version: "1"}
paths:
  /pets/{id}:
    parameters: [{$ref: "#/components/parameters/id"}]
    get:
      operationId: getPet
      tags: [pets]
      responses: {200: {description: "A pet, for example with token=sk-abcdefghijklmnopqrstuv"}}
  /slow: {get: {operationId: slow, responses: {default: {description: "Late."}}}}
components:
  parameters:
    id: {name: id, in: path, required: true, schema: {type: string, nullable: true}}
"""


def in_files(
    folder: Path, model: ScriptedModel, endpoint: str, specification: str = "pets.yaml"
) -> Path:
    """The file of an agent, beside a specification."""
    (folder / "pets.yaml").write_text(YAML)
    (folder / "agent.prompty").write_text(
        f"""---
name: keeper
model:
  id: scripted
  connection: {{kind: key, endpoint: "{model.openai_endpoint}"}}
tools:
  - name: pets
    kind: openapi
    specification: {specification}
    connection: {{kind: anonymous, endpoint: "{endpoint}"}}
    options: {{tags: [pets]}}
---
system:
Find pets.
"""
    )
    return folder / "agent.prompty"


async def test_a_file_is_read_where_the_run_is_started(
    stage: Stage, scripted: Scripted, service: Service, tmp_path: Path
) -> None:
    model = scripted([asks(call("getPet", id="1")), says("done")])
    file = in_files(tmp_path, model, service.url)
    run = await stage.start(load(file))
    for each in tmp_path.iterdir():
        each.unlink()
    async with stage.worker():
        result = await run.result()
    assert json.loads(results(result)[0].text)["id"] == "1"
    assert model.requests[0].body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "getPet",
                "description": "GET /pets/{id}",
                "parameters": {
                    "type": "object",
                    "properties": {"id": {"type": ["string", "null"]}},
                    "required": ["id"],
                    "additionalProperties": False,
                },
            },
        }
    ]


async def test_a_file_that_is_absent_there_is_read_by_the_worker(
    stage: Stage, scripted: Scripted, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    model = scripted([asks(call("getPet", id="1")), says("done")])
    file = in_files(tmp_path, model, service.url).rename(tmp_path / "here" / "agent.prompty")
    async with stage.worker(prompt_root=tmp_path):
        result = await (await stage.start(load(file))).result()
    assert json.loads(results(result)[0].text)["id"] == "1"


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (
            {"options": {"operations": ["getPett"]}},
            r"no operation 'getPett' \(did you mean 'getPet'\?\)",
        ),
        ({"options": {"operation": ["getPet"]}}, r"options.operation is unknown"),
        ({"specification": "URL/nothing"}, "answered 404 Not Found"),
        ({"specification": "URL/nonsense"}, "is not UTF-8 text"),
        ({"specification": "URL/hello"}, "its `openapi` is None"),
        (
            {"specification": "http://127.0.0.1:1/openapi.json"},
            "http://127.0.0.1:1 can't be reached",
        ),
        (
            {"specification": "URL/elsewhere?to=http://localhost:1/x"},
            "redirects to http://localhost:1",
        ),
        ({"specification": "absent.json"}, "this worker has no prompt_root to look in"),
        ({"specification": None}, "specification is missing"),
        (
            {"connection": {"kind": "foundry"}},
            "connection.kind is 'foundry'. Expected one of key, anonymous",
        ),
    ],
)
async def test_what_can_t_be_offered_fails_the_run(
    declared: JsonObject, problem: str, scripted: Scripted, service: Service
) -> None:
    more = {
        key: value.replace("URL", service.url) if key == "specification" and value else value
        for key, value in declared.items()
    }
    agent = scripted_agent(scripted([]), [{**api(service), **more}])
    with pytest.raises(RunError, match=problem):
        await InProcessRun(agent, [], model=[says("never")]).run()


async def test_the_agents_that_an_agent_calls_take_their_specifications_along(
    scripted: Scripted, tmp_path: Path
) -> None:
    (tmp_path / "deep").mkdir()
    in_files(tmp_path / "deep", scripted([]), "http://127.0.0.1:1")
    (tmp_path / "parent.prompty").write_text(
        "---\nname: parent\nmodel: {id: m}\n"
        "tools: [{name: keeper, kind: prompty, path: deep/agent.prompty}]\n---\nHi.\n"
    )
    [child] = run_input(tmp_path / "parent.prompty")["agents"].values()
    [offered] = json.loads(child["tools"][0]["recorded"])["operations"]
    assert offered["name"] == "getPet"


def validated(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of `perdure validate`, and what it says."""
    code = run(("validate", str(file)))
    return code, "".join(capsys.readouterr())


def test_validate_reads_the_specification(
    scripted: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = in_files(tmp_path, scripted([]), "http://127.0.0.1:1")
    assert validated(file, capsys)[0] == 0
    (tmp_path / "pets.yaml").write_text(YAML.replace("#/components/parameters/id", "parts.yaml"))
    code, text = validated(file, capsys)
    assert code == 1
    assert (
        "agent.prompty:7: error: tools[0]: pets.yaml: GET /pets/{id}: `$ref: parts.yaml` leads to "
        "another document: bundle" in text
    )


def test_validate_compares_it_with_the_schema_of_openapi(
    scripted: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = in_files(tmp_path, scripted([]), "http://127.0.0.1:1")
    assert "OpenAPI" not in validated(file, capsys)[1]
    (tmp_path / "pets.yaml").write_text(YAML.replace("info: {title: Pets", "inf: {title: Pets"))
    code, text = validated(file, capsys)
    assert code == 0
    assert (
        "tools[0].specification: pets.yaml is not a valid OpenAPI document: the document: 'info' "
        "is a required" in text
    )
