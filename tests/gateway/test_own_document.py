"""perdure's own OpenAPI document against what its addresses answer: no failure, and nothing that is
not declared.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from perdure.testing import says

from ..support import needs
from ..support.agents import Scripted, scripted_agent
from .conftest import Serve


def attack(url: str, known: dict[str, str], *, examples: int) -> list[str]:
    """Ask each operation so often what its document allows, and with several examples what it does
    not.

    Returns the operations' names. `known` are ids that there are, by the address.
    """
    schemathesis, hypothesis = needs.module("schemathesis"), needs.module("hypothesis")
    declared = needs.module("schemathesis.specs.openapi.checks")
    checks = [
        declared.status_code_conformance,
        declared.content_type_conformance,
        declared.response_schema_conformance,
    ]
    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    is_known = hypothesis.strategies.booleans()

    def ask(case: Any, *, is_known: bool) -> None:
        if is_known:
            place_known(case, known)
        answer = case.call(timeout=30)
        assert answer.status_code != 500, (case.as_curl_command(), answer.text)
        case.validate_response(answer, checks=checks)

    attacked = []
    for found in schemathesis.openapi.from_url(f"{url}/perdure/openapi.json").get_all_operations():
        operation = found.ok()
        attacked.append(operation.label)
        for mode in list(schemathesis.GenerationMode)[: 1 if examples == 1 else 2]:
            with suppress(
                hypothesis.errors.Unsatisfiable
            ):  # There is nothing that it does not allow.
                cases = operation.as_strategy(generation_mode=mode)
                settings(hypothesis.given(case=cases, is_known=is_known)(ask))()
    return attacked


def place_known(case: Any, known: dict[str, str]) -> None:
    """Let the request mean something that there is."""
    for begin, id in known.items():
        if case.operation.path.startswith(begin) and "id" in (case.path_parameters or {}):
            case.path_parameters["id"] = id
    if isinstance(case.body, dict) and "agent" in case.body:
        case.body["agent"] = "tested"


@pytest.mark.usefixtures("no_pause_stays")
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.parametrize(
    "examples", [1, pytest.param(200, marks=[pytest.mark.trial, pytest.mark.timeout(3600)])]
)
async def test_every_address_answers_as_declared(
    examples: int, scripted: Scripted, serve_agents: Serve
) -> None:
    agent = scripted_agent(scripted(lambda request: says("Done.")), instructions="user:\nHi")
    async with serve_agents(agent) as served, served.asking() as http:
        run = (await http.post("/runs", json={"agent": "tested"})).json()["id"]
        await http.get(f"/runs/{run}/result", params={"wait": 30})
        session = f"{served.gateway.task_queue}-s"
        said = (
            await http.post(f"/sessions/{session}/messages", json={"agent": "tested", "text": "Hi"})
        ).json()
        await http.get(f"/runs/{said['run']}/result", params={"wait": 30})
        await http.post(f"/sessions/{session}/close", json={})
        known = {"/perdure/runs": run, "/perdure/sessions": session}
        attacked = await asyncio.to_thread(attack, served.url, known, examples=examples)
    assert {"POST /perdure/runs", "GET /perdure/sessions/{id}/events"} <= set(attacked)
