"""What type checkers, and so editors, know of a call: every parameter, every option, the result.

`make check` reads this file: a wrong call without its `type: ignore` fails there, and so does an
`ignore` without its wrong call.
"""

from __future__ import annotations

import inspect
from typing import Any, assert_type, get_type_hints

from pydantic import BaseModel

import perdure
from perdure.client import connect, get_run, session, start_run
from perdure.client.invoke import MoreOptions
from perdure.testing import run_in_process


class City(BaseModel):
    name: str


@perdure.tool
def look(at: str) -> str:
    return at


async def calls() -> None:
    """Read by type checkers; nothing calls it."""
    perdure.invoke_agent("a.prompty", {"q": 1}, [look], max_iterations=3, tool_timeout=2.0)
    perdure.invoke_agent("a.prompty", tools={"look": look}, max_seconds=None, on_limit="partial")
    perdure.invoke_agent("a.prompty", max_iteration=3)  # type: ignore[call-arg]
    perdure.invoke_agent("a.prompty", on_limit="never")  # type: ignore[arg-type]
    perdure.invoke_agent("a.prompty", max_tool_calls="3")  # type: ignore[arg-type]
    perdure.invoke_agent(3)  # type: ignore[arg-type]
    perdure.invoke_agent("a.prompty", approve=lambda pending: pending.name != "pay")
    perdure.invoke_agent("a.prompty", approve=3)  # type: ignore[arg-type]
    client = await connect()
    await perdure.invoke_agent_async("a.prompty", client=client, rate_limit_seconds=1.5)
    await perdure.invoke_agent_async("a.prompty", client="localhost:7233")  # type: ignore[arg-type]
    assert_type(perdure.invoke_agent("a.prompty"), Any)
    assert_type(perdure.invoke_agent("a.prompty", output_type=City), City)
    run = await start_run(client, "a.prompty", output_type=City)
    assert_type((await run.result()).output, City)
    assert_type((await get_run(client, "a", output_type=City).result()).output, City)
    assert_type(run_in_process("a.prompty", model=[], output_type=City).output, City)
    talk = session(client, "a.prompty", "a", output_type=City)
    assert_type((await (await talk.send("?")).result()).output, City)


def test_every_run_option_is_a_parameter_of_the_same_type() -> None:
    named = get_type_hints(perdure.invoke_agent_async)
    more = get_type_hints(MoreOptions)
    assert more.keys().isdisjoint(named)
    for name, field in perdure.RunOptions.model_fields.items():
        # Of these the call takes more forms: what a name stands for, an address.
        if name not in ("guardrails", "compactor", "webhooks"):
            assert (more | named)[name] == field.annotation, name
    assert more.keys() < perdure.RunOptions.model_fields.keys()


def test_the_defaults_are_those_of_the_run_options() -> None:
    fields = perdure.RunOptions.model_fields
    parameters = inspect.signature(perdure.invoke_agent).parameters
    shared = [name for name in parameters if name in fields]
    assert {name: parameters[name].default for name in shared} == {
        name: fields[name].default for name in shared
    }
    assert len(shared) >= 7


def test_the_plain_form_is_described_like_the_other() -> None:
    assert inspect.signature(perdure.invoke_agent) == inspect.signature(perdure.invoke_agent_async)
    assert perdure.invoke_agent.__name__ == "invoke_agent"
    assert not inspect.iscoroutinefunction(perdure.invoke_agent)
