"""`perdure run`: where the work is done, what is printed where, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import uuid
from pathlib import Path

from temporalio.client import Client, WorkflowExecutionStatus

from ..support.command_line import Cli

AGES = ("run", "ages.prompty", "--tools", "tools.py", "--scripted", "tools.py:script")


async def test_in_a_pipe_what_is_streamed_is_not_the_answer(cli: Cli) -> None:
    talker = ("run", "talker.prompty", "--tools", "talking.py", "--scripted", "talking.py:script")
    finished = await cli(*talker, "-i", "said=hello", "--stream")
    assert finished.stdout == "Heard: hello.\n"
    assert "\nHeard: hello.\n" in finished.stderr


async def test_what_happens_is_on_stderr(cli: Cli) -> None:
    finished = await cli(*AGES, "--input", "person=Ann", "--id", "shown")
    assert (finished.code, finished.stdout) == (0, "Ann is 30.\n")
    assert "Run shown: scripted model (tools.py:script), the server at" in finished.stderr
    assert 'look_up_age({"person": "Ann"})' in finished.stderr
    assert "→ Ann is 30" in finished.stderr
    assert re.search(
        r"^  model: \d+ tokens in, \d+ out, \$0\.000\d+$", finished.stderr, re.MULTILINE
    )
    assert re.search(
        r"^Run shown is done: 2 model calls, [\d,]+ tokens, \$0\.00\d+$",
        finished.stderr,
        re.MULTILINE,
    )
    assert "\x1b[" not in finished.stderr, "colour without a terminal"


async def test_quiet_says_nothing(cli: Cli) -> None:
    finished = await cli(*AGES, "--input", "person=Ann", "--quiet")
    assert (finished.stdout, finished.stderr) == ("Ann is 30.\n", "")


async def test_json_holds_everything(cli: Cli) -> None:
    finished = await cli(*AGES, "--input", "person=Ann", "--id", "as-json", "--json")
    said = json.loads(finished.stdout)
    assert (said["id"], said["status"], said["output"], said["iterations"]) == (
        "as-json",
        "done",
        "Ann is 30.",
        2,
    )
    assert 0 < said["cost_usd"] < 1
    assert [message["role"] for message in said["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_the_embedded_server_and_a_worker_inside(embedded: Cli) -> None:
    finished = await embedded(*AGES, "--input", "person=Bo", "--id", "inside")
    assert finished.stdout == "Bo is 20.\n"
    assert "the embedded server at 127.0.0.1:" in finished.stderr
    assert "/namespaces/default/workflows/inside" in finished.stderr
    listed = await embedded("ls")
    assert "inside  ages   completed" in listed.stdout


async def test_ctrl_c_leaves_the_run_to_another_worker(cli: Cli, client: Client) -> None:
    run = await cli.start(*AGES, "--input", "person=Ann", "--input", "wait=600", "--id", "left")
    await run.says("look_up_age")
    finished = await run.finish(signal.SIGINT)
    assert finished.code == 130
    assert finished.stdout == ""
    assert "go on: perdure resume left" in finished.stderr
    assert "perdure cancel left" in finished.stderr
    assert (
        await client.get_workflow_handle("left").describe()
    ).status is WorkflowExecutionStatus.RUNNING


async def test_detached_runs_wait_for_workers(cli: Cli) -> None:
    queue = f"queue-{uuid.uuid4()}"
    started = await cli(
        "run", "ages.prompty", "--input", "person=Ann", "--detach", "--task-queue", queue
    )
    assert started.code == 0
    assert (
        f"No worker polls the task queue '{queue}' yet. Start one: perdure worker --task-queue "
        f"{queue} --tools my_tools.py" in (started.stderr)
    )
    waiting = await cli.start("result", started.stdout.strip())
    await waiting.says("waits: a worker on the task queue")


async def test_a_failed_run_ends_with_1_and_says_what_to_type(cli: Cli) -> None:
    finished = await cli(
        "run", "ages.prompty", "--input", "person=Ann", "--tools", "tools.py", "--id", "keyless"
    )
    assert finished.code == 1
    assert finished.stdout == ""
    assert (
        "Run keyless ended without a result (execute: configuration): LLM call failed: No API key"
        in finished.stderr
    )
    assert "perdure show keyless" in finished.stderr
    status = (await cli("status", "keyless")).stdout.splitlines()
    assert status[0].startswith("failed, ")
    assert status[1].startswith("agent ages; begun ")
    assert status[2].startswith("execute: LLM call failed: No API key for 'openai'")
    assert status[3].startswith("  its steps: perdure show keyless ")
    shown = (await cli("show", "keyless")).stdout.splitlines()
    assert shown[:4] == [*status[:3], "  the conversation: perdure messages keyless"]


async def test_a_run_that_fails_after_a_paid_call_says_how_to_go_on(
    cli: Cli, tmp_path: Path
) -> None:
    asked = {"id": "c1", "name": "look_up_age", "arguments": '{"person": "Ann"}'}
    (tmp_path / "paid.json").write_text(json.dumps([{"tool_calls": [asked]}, {"status": 401}]))
    script = ("--tools", "tools.py", "--scripted", str(tmp_path / "paid.json"))
    finished = await cli("run", "ages.prompty", "--input", "person=Ann", *script, "--id", "paid")
    assert finished.code == 1, finished.stderr
    assert "ended without a result (execute: authentication)" in finished.stderr
    assert "perdure fork paid --at 2" in finished.stderr


async def test_a_declared_tool_without_handler(cli: Cli) -> None:
    finished = await cli(
        "run", "ages.prompty", "--input", "person=Ann", "--scripted", "silent.json"
    )
    assert finished.code == 1
    assert "No handler registered for tool: look_up_age" in finished.stderr
    assert "--tools" in finished.stderr
