"""The upstream conformance vectors of wire, process and stream, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.messages import ToolCall
from perdure.providers import process_response, to_request

from ..support.stream_outcome import process_stream

VECTORS = Path(__file__).parents[3] / "shared" / "prompty" / "vectors.json"
OUT_OF_SCOPE = {"embedding", "image"}


def vectors(operation: str) -> list[Any]:
    every = json.loads(VECTORS.read_text())["vectors"] if VECTORS.exists() else []
    chosen = [entry["vector"] for entry in every if entry["operation"] == operation]
    return [
        pytest.param(vector, id=vector["name"])
        for vector in chosen
        if vector["input"].get("apiType") not in OUT_OF_SCOPE
    ]


def agent_of(given: JsonObject) -> Agent:
    outputs = (
        [{"name": "city"}, {"name": "temp", "kind": "integer"}]
        if given.get("has_outputs")
        else None
    )
    return Agent.model_validate(
        {
            "model": {
                "id": given.get("model_id", "m"),
                "provider": given["provider"],
                "apiType": given["apiType"],
                "options": given.get("options"),
            },
            "tools": given.get("tools"),
            "outputs": given.get("outputs", outputs),
        }
    )


@pytest.mark.parametrize("vector", vectors("toRequest"))
def test_to_request(vector: JsonObject) -> None:
    given = vector["input"]
    assert to_request(agent_of(given), given["messages"]) == vector["expected"]["request_body"]


@pytest.mark.parametrize("vector", vectors("process"))
def test_process(vector: JsonObject) -> None:
    result = process_response(agent_of(vector["input"]), vector["input"]["response"])
    if isinstance(result, list):
        result = [call.model_dump() if isinstance(call, ToolCall) else call for call in result]
    assert result == vector["expected"]["result"]


@pytest.mark.parametrize("vector", vectors("processStream"))
def test_process_stream(vector: JsonObject) -> None:
    assert (
        process_stream(vector["input"]["events"], provider=vector["input"]["provider"])
        == vector["expected"]
    )
