"""Turns of a session, from the first to the 200th: their latency and what they leave in histories.

Each is compared with a plain run that is started with the same conversation, in the same minute.
Every turn is a message of 1 KB, one model call and a short answer; with `context_budget`, the model
sees the last part of it.
"""

from __future__ import annotations

import argparse
import statistics
import time
import uuid
from dataclasses import astuple, dataclass

from benchmarks.stage import Stage, run, stage
from benchmarks.tools import text_of
from perdure import Agent, Message, RunOptions
from perdure.client import RunHandle, Session, session, start_run

TURNS = 200
BUDGET_CHARS = 20_000
"""About 19 turns."""


@dataclass
class Turn:
    """What one turn took, and the plain run beside it."""

    milliseconds: float
    plain_milliseconds: float
    session_events: int
    session_bytes: int
    run_events: int
    run_bytes: int
    plain_events: int
    plain_bytes: int


async def size(stage: Stage, id: str) -> tuple[int, int]:
    """Events and bytes of the history of a run, or of the link that a session is at."""
    described = await stage.client.get_workflow_handle(id).describe()
    return (
        described.history_length,
        described.raw_description.workflow_execution_info.history_size_bytes,
    )


async def measure(stage: Stage, turns: int, context_budget: int | None) -> list[Turn]:
    agent = stage.agent.model_copy(
        update={"instructions": "system:\nrounds=0 calls=0", "tools": None}
    )
    options, measured = RunOptions(context_budget=context_budget), list[Turn]()
    async with stage.worker() as (task_queue, _):
        talk = session(
            stage.client, agent, f"bench-{uuid.uuid4()}", task_queue=task_queue, options=options
        )
        spoken, known = list[Message](), (0, 0)
        for number in range(1, turns + 1):
            text = text_of(number, 0)
            took, handle = await _turn(talk, text)
            at = await size(stage, talk.id)
            # A new link begins its history anew.
            grown = (at[0] - known[0], at[1] - known[1]) if at > known else at
            known = at
            before = spoken or [Message.system("rounds=0 calls=0")]
            plain_took, plain = await _plain(
                stage, agent, [*before, Message.user(text)], task_queue, options
            )
            spoken = (await handle.result()).messages
            run, alone = await size(stage, handle.id), await size(stage, plain.id)
            measured.append(Turn(took, plain_took, *grown, *run, *alone))
    return measured


async def _turn(talk: Session, text: str) -> tuple[float, RunHandle]:
    started = time.perf_counter()
    handle = await talk.send(text)
    await handle.result()
    return (time.perf_counter() - started) * 1000, handle


async def _plain(
    stage: Stage, agent: Agent, messages: list[Message], task_queue: str, options: RunOptions
) -> tuple[float, RunHandle]:
    started = time.perf_counter()
    handle = await start_run(
        stage.client, agent, messages=messages, task_queue=task_queue, options=options
    )
    await handle.result()
    return (time.perf_counter() - started) * 1000, handle


def show(label: str, measured: list[Turn]) -> None:
    """A line for each part of the session: medians."""
    last = len(measured)
    for first, end in ((1, last // 10), (last * 9 // 20, last * 11 // 20), (last * 9 // 10, last)):
        part = zip(*(astuple(turn) for turn in measured[first - 1 : end]), strict=True)
        medians = [statistics.median(values) for values in part]
        print(
            f"{label:10} {first:4}–{end:<4}" + "".join(f"{value:9.0f}" for value in medians),
            flush=True,
        )


async def main(turns: int) -> None:
    columns = ("turn ms", "plain ms", "sess ev", "sess B", "run ev", "run B", "plain ev", "plain B")
    print(f"{'':10} {'turns':>9}" + "".join(f"{column:>9}" for column in columns))
    async with stage() as server:
        await measure(server, 3, None)
        show("whole", await measure(server, turns, None))
        show("budget", await measure(server, turns, BUDGET_CHARS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="?", type=int, default=TURNS)
    run(main(parser.parse_args().turns))
