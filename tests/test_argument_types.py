"""Arguments of the wrong type: each is named, with what was expected, wherever a caller writes
it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

import perdure
from perdure.client import get_run, session, start_run
from perdure.testing import run_in_process, says
from perdure.worker import create_worker

FILE = (
    "---\nmodel: {id: m, connection: {kind: key, endpoint: 'http://127.0.0.1:1/v1', apiKey: "
    "'${env:K}'}}\n---\nHi.\n"
)
ANY: Any = None


def function() -> None: ...


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "a.prompty"
    path.write_text(FILE)
    return path


STARTS: dict[str, Callable[..., Any]] = {
    "invoke_agent": lambda client, agent, **given: perdure.invoke_agent(
        agent, client=client, **given
    ),
    "invoke_agent_async": lambda client, agent, **given: perdure.invoke_agent_async(
        agent, client=client, **given
    ),
    "start_run": lambda client, agent, **given: start_run(client, agent, **given),
    "run_input": lambda client, agent, **given: perdure.run_input(agent, **given),
    "session": lambda client, agent, **given: session(client, agent, "s", **given),
    "create_worker": lambda client, agent, **given: create_worker(client, **given),
    "run_in_process": lambda client, agent, **given: run_in_process(
        agent, model=[says("")], **given
    ),
    "get_run": lambda client, agent, **given: get_run(client, **given),
    "send": lambda client, agent, **given: session(client, agent, "s").send(**given),
}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    *((start, {"inputs": ["a"]}, "inputs=['a']: expected a mapping") for start in STARTS if start not in
      ("create_worker", "get_run", "send")),
    *((start, {"messages": "hello"}, "messages='hello': expected a list of messages") for start in
      ("invoke_agent", "invoke_agent_async", "start_run", "run_input", "run_in_process")),
    *((start, {"tools": function}, "expected a list of functions, such as [f]") for start in
      ("invoke_agent", "invoke_agent_async", "create_worker", "run_in_process")),
    *((start, {"tools": [function, "f"]}, "a tool='f': expected a function, got str") for start in
      ("invoke_agent", "create_worker", "run_in_process")),
    *((start, {"options": "fast"}, "options='fast': expected RunOptions, or a mapping") for start in
      ("start_run", "run_input", "session", "run_in_process")),
    *((start, {"options": {"max_iteration": 2}}, "'max_iteration' (did you mean 'max_iterations'?)") for start in
      ("start_run", "run_input", "run_in_process")),
    *((start, {"guardrails": function}, "expected Guardrails(input=…, output=…, tool=…), got "
                                        "function") for start in
      ("invoke_agent", "run_in_process")),
    ("create_worker", {"guardrails": {"strict": function}}, "expected Guardrails(input=…, "
                                                            "output=…, tool=…)"),
    ("create_worker", {"guardrails": perdure.Guardrails()}, "expected a mapping from names to "
                                                            "guardrails"),
    ("create_worker", {"compactors": {"short": 3}}, "compactors['short']=3: expected a function"),
    ("create_worker", {"resources": [function]}, "expected a mapping from types to functions, "
                                                 "got list"),
    ("invoke_agent", {"resources": [function]}, "expected a mapping from types to functions, got "
                                                "list"),
    ("invoke_agent", {"approve": True}, "approve=True: expected a function, got bool"),
    ("invoke_agent", {"cancel": function}, "expected a CancellationToken, got function"),
    ("invoke_agent", {"steering": "more"}, "steering='more': expected a Steering, got str"),
    ("invoke_agent", {"id": 5}, "id=5: expected a text, got int"),
    ("invoke_agent", {"max_iteration": 5}, "unexpected keyword argument 'max_iteration' (did you "
                                           "mean"),
    ("invoke_agent_async", {"aprove": function}, "unexpected keyword argument 'aprove' (did you "
                                                 "mean 'approve'?)"),
    ("invoke_agent", {"xyz": 1}, "invoke_agent() got an unexpected keyword argument 'xyz'"),
    ("start_run", {"id": 5}, "id=5: expected a text, got int"),
    ("start_run", {"tennant": "a"}, "unexpected keyword argument 'tennant' (did you mean "
                                    "'tenant'?)"),
    ("start_run", {"max_iterations": 3}, "start_run() got an unexpected keyword argument "
                                         "'max_iterations'"),
    ("get_run", {"id": 5}, "expected a run's id, which is a text, got int"),
    ("get_run", {"id": None}, "expected a run's id, which is a text, got NoneType"),
    ("send", {"text": ["a"]}, "expected a text, got list"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("start", "given", "said"), WRONG, ids=lambda value: value if isinstance(value, str) else ""
)
async def test_an_argument_of_the_wrong_type_is_named(
    client: Client, agent: Path, start: str, given: dict[str, Any], said: str
) -> None:
    async def make() -> None:
        made = STARTS[start](client, agent, **given)
        if hasattr(made, "__await__"):
            await made

    with pytest.raises(TypeError) as caught:
        await make()
    assert said in str(caught.value)


@pytest.mark.parametrize("agent", [3, None, {"name": "a"}])
def test_an_agent_that_is_none_is_named(agent: Any) -> None:
    for start in (
        perdure.invoke_agent,
        perdure.run_input,
        lambda agent: run_in_process(agent, model=[says("")]),
    ):
        with pytest.raises(
            TypeError, match=r"expected the path of a .prompty file, or an Agent, got"
        ):
            start(agent)


def test_options_may_be_a_mapping(agent: Path) -> None:
    assert perdure.run_input(agent, options={"max_iterations": 3})["options"]["max_iterations"] == 3
    assert run_in_process(agent, model=[says("Hello.")], options={}).output == "Hello."
