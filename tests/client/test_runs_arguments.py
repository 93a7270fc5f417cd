"""Arguments that a call does not have are refused, and so are functions in place of guardrails."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from temporalio.client import Client

import perdure
from perdure.client import start_run
from perdure.testing import run_in_process, says
from perdure.worker import create_worker

ANY: Any = None
ASKED = {"question": "?"}


def function() -> None: ...


async def test_an_unknown_argument_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match=r"'max_iteration' \(did you mean 'max_iterations'\?\)"):
        perdure.invoke_agent("a.prompty", client=client, max_iteration=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'tennant' \(did you mean 'tenant'\?\)"):
        await start_run(client, "a.prompty", tennant="a")  # type: ignore[call-arg]


async def test_guardrails_are_not_a_function(client: Client) -> None:
    for make in (
        lambda: create_worker(client, guardrails={"strict": ANY or function}),  # type: ignore[dict-item]
        lambda: run_in_process(
            perdure.agent("openai/m", instructions="Hi.", name="a"),
            model=[says("")],
            inputs=ASKED,
            guardrails=function,  # type: ignore[arg-type]
        ),
    ):
        with pytest.raises(TypeError, match=r"expected Guardrails\(input=…, output=…, tool=…\)"):
            make()


def test_options_may_be_a_mapping() -> None:
    agent = perdure.agent("openai/m", instructions="Hi.", name="a")
    assert (
        perdure.run_input(agent, ASKED, options={"max_iterations": 3})["options"]["max_iterations"]
        == 3
    )
    assert (
        run_in_process(agent, inputs=ASKED, model=[says("Hello.")], options={}).output == "Hello."
    )
    with pytest.raises(ValidationError, match="max_iteration"):
        perdure.run_input(agent, ASKED, options={"max_iteration": 2})
