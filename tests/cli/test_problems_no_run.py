"""Commands about a run that are given the id of something else, or of a run that can't be read."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import Client

from perdure.payloads.encryption.keys import new_key
from perdure.protocol.names import WORKFLOW

from ..support.command_line import Cli, Finished

OF_A_RUN = {
    "show": (),
    "status": (),
    "events": (),
    "messages": (),
    "watch": (),
    "export": ("-o", "there.jsonl"),
    "fork": ("--at", "1"),
    "trace": (),
    "resume": (),
    "rerun": (),
    "approve": ("call_1",),
}


async def all_of(cli: Cli, id: str, *more: str) -> dict[str, Finished]:
    names = [*OF_A_RUN, *more]
    ended = await asyncio.gather(*(cli(name, id, *OF_A_RUN.get(name, ())) for name in names))
    return dict(zip(names, ended, strict=True))


async def start(client: Client, type: str, *given: Any) -> str:
    id = f"theirs-{uuid.uuid4()}"
    await client.start_workflow(type, args=given, id=id, task_queue="nobody")
    return id


async def test_a_workflow_of_another_type(cli: Cli, client: Client) -> None:
    id = await start(client, "Theirs", 7)
    for name, ended in (await all_of(cli, id, "result", "cancel")).items():
        text = (
            f"perdure: '{id}' is the id of a workflow of the type 'Theirs', not of a run: expected "
            "an id that"
        )
        assert (ended.code, ended.stdout, ended.stderr.startswith(text)) == (1, "", True), (
            name,
            ended,
        )
        assert len(ended.stderr.splitlines()) == 1, (name, ended)


@pytest.mark.parametrize(
    ("given", "why"),
    [([{"agent": {"name": "helper"}}], "messages: Field required"), ([], "it was given nothing")],
)
async def test_a_run_of_another_input(cli: Cli, client: Client, given: list[Any], why: str) -> None:
    id = await start(client, WORKFLOW, *given)
    for name, ended in (await all_of(cli, id)).items():
        text = f"perdure: the workflow '{id}' was started as a run, but its input is not a run's: {why}."
        assert (ended.code, ended.stdout, ended.stderr.startswith(text)) == (1, "", True), (
            name,
            ended,
        )
        assert len(ended.stderr.splitlines()) == 1, (name, ended)


async def test_a_run_without_its_key(cli: Cli) -> None:
    id = f"sealed-{uuid.uuid4()}"
    keyed = Cli({**cli.environment, "PERDURE_ENCRYPTION_KEY": new_key("k1")})
    try:
        ages = (
            "ages.prompty",
            "--tools",
            "tools.py",
            "--scripted",
            "tools.py:script",
            "--input",
            "person=Ann",
        )
        ran = await keyed("run", *ages, "--id", id, "--quiet")
        assert ran.code == 0, ran.stderr
    finally:
        await keyed.close()
    for name, ended in (await all_of(cli, id, "result")).items():
        assert ended.code in (0, 1), (name, ended)
        assert "PERDURE_ENCRYPTION_KEY" in ended.stderr, (name, ended)
        assert "Traceback" not in ended.stderr, (name, ended)
        assert "validation error" not in ended.stderr, (name, ended)
