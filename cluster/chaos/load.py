"""Starts runs of every shape, and does what people and programs do with them; notes what it did
and what it was promised.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from perdure.client import RunHandle, RunOptions, get_run, session, start_run
from perdure.errors import ApprovalError, ConfigurationError, RunError, RunNotFound, SessionError

from .agents import QUEUE
from .processes import patiently_connected
from .shapes import SCRIPTS, mark

T = TypeVar("T")
SHAPES = [shape for shape in SCRIPTS if shape != "clerk"]
FILES = {"kinds": "kinds", "child": "chief"}
PATIENCE_SECONDS = 900.0
"""After which a run counts as lost."""
TURNS = 3
STEERED = 3


class Load:
    def __init__(self, client: Client, folder: Path, services: str, gateway: str) -> None:
        self._client, self._folder = client, folder
        self._services, self._url = services, gateway
        self._random = random.Random(7)

    def note(self, event: str, run: str, **more: Any) -> None:
        with (self._folder / "load.jsonl").open("a") as log:
            log.write(json.dumps({"at": time.time(), "event": event, "run": run, **more}) + "\n")

    async def play(self, shape: str, run: str) -> None:
        """One run from its start to its end. What it raises is in the notes, as a finding."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await getattr(self, f"_{shape}", self._simple)(shape, run)
        except Exception as error:
            self.note("gave_up", run, shape=shape, why=f"{type(error).__name__}: {error}")

    async def _start(self, shape: str, run: str, **options: Any) -> RunHandle:
        path = self._folder / f"{FILES.get(shape, 'main')}.prompty"
        given = {
            "max_llm_retries": 20,
            "retry_base_seconds": 0.2,
            "rate_limit_seconds": 60.0,
            "stream": self._random.random() < 0.5,
            "parallel_tool_calls": True,
            "max_iterations": 30,
        }

        async def start() -> RunHandle:
            try:
                return await start_run(
                    self._client,
                    path,
                    messages=[{"role": "user", "content": mark(run, shape)}],
                    task_queue=QUEUE,
                    id=run,
                    options=RunOptions(**{**given, **options}),
                )
            except WorkflowAlreadyStartedError:
                return get_run(self._client, run)  # An earlier try was answered too late.

        handle = await self._persist(start)
        self.note("started", run, shape=shape)
        return handle

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until the server is back: what a program of a user's would do."""
        while True:
            try:
                return await attempt()
            except (RPCError, ConfigurationError, httpx2.HTTPError):
                await asyncio.sleep(0.5)
            except (ApprovalError, SessionError) as error:
                if error.kind != "unconfirmed":
                    raise
                await asyncio.sleep(0.5)

    async def _end(self, handle: RunHandle, run: str, shape: str) -> None:
        """Follow it to its end, and count the terminal events that its reader sees."""
        ends: list[str] = []
        async for event in handle.stream():
            if event.type in ("done", "failed", "cancelled"):
                ends.append(event.type)
        try:
            result = await self._persist(handle.result)
            self.note("ended", run, shape=shape, ends=ends, output=str(result.output))
        except RunError as error:
            self.note("ended", run, shape=shape, ends=ends, error=error.kind)

    async def _simple(self, shape: str, run: str) -> None:
        await self._end(await self._start(shape, run), run, shape)

    async def _large(self, shape: str, run: str) -> None:
        """A run is held while its values can't be stored: a person frees space, and it goes on."""
        handle = await self._start(shape, run, on_failure="hold")
        mending = asyncio.create_task(self._mend(handle, run))
        try:
            await self._end(handle, run, shape)
        finally:
            mending.cancel()

    async def _mend(self, handle: RunHandle, run: str) -> None:
        while True:
            await asyncio.sleep(3)
            with suppress(RPCError, RunError):
                if (await handle.status()).status == "held":
                    await handle.go_on()
                    self.note("went_on", run)

    async def _webhook(self, shape: str, run: str) -> None:
        hooks = [f"{self._services}/hook"]
        await self._end(await self._start(shape, run, webhooks=hooks), run, shape)

    async def _pending(self, handle: RunHandle) -> Any:
        while True:
            status = await self._persist(handle.status)
            if status.pending_approvals:
                return status.pending_approvals[0]
            await asyncio.sleep(0.5)

    async def _approval(self, shape: str, run: str) -> None:
        handle = await self._start(shape, run)
        waiting = await self._pending(handle)
        await asyncio.sleep(self._random.uniform(0, 5))
        for _ in range(2):  # A repeated decision counts once.
            await self._persist(lambda: handle.approve(waiting.call_id, digest=waiting.digest))
        self.note("approved", run, call=waiting.call_id)
        await self._end(handle, run, shape)

    async def _denied(self, shape: str, run: str) -> None:
        handle = await self._start(shape, run)
        waiting = await self._pending(handle)
        await self._persist(lambda: handle.deny(waiting.call_id, "not today"))
        self.note("denied", run, call=waiting.call_id)
        await self._end(handle, run, shape)

    async def _question(self, shape: str, run: str) -> None:
        handle = await self._start(shape, run)
        waiting = await self._pending(handle)
        await self._persist(lambda: handle.answer(waiting.call_id, f"answer for {run}"))
        self.note("answered", run, call=waiting.call_id)
        await self._end(handle, run, shape)

    async def _steered(self, shape: str, run: str) -> None:
        handle = await self._start(shape, run)
        for number in range(STEERED):
            text = f"steering {number} of {run}"
            try:
                await handle.steer(text)
                self.note("steered", run, text=text)
            except RPCError:
                self.note("perhaps_steered", run, text=text)
            except RunNotFound:
                break
            await asyncio.sleep(self._random.uniform(0, 2))
        await self._end(handle, run, shape)

    async def _cancelled(self, shape: str, run: str) -> None:
        handle = await self._start(shape, run)
        await asyncio.sleep(self._random.uniform(1, 8))
        await self._persist(handle.cancel)
        self.note("cancelled", run)
        await self._end(handle, run, shape)

    async def _forked(self, shape: str, run: str) -> None:
        handle = await self._start(shape, run)
        await self._end(handle, run, shape)

        async def fork() -> RunHandle:
            try:
                return await handle.fork(2, id=f"{run}-fork")
            except WorkflowAlreadyStartedError:
                return get_run(self._client, f"{run}-fork")

        again = await self._persist(fork)
        self.note("started", again.id, shape=shape, origin=run)
        await self._end(again, again.id, shape)

    async def _session(self, shape: str, run: str) -> None:
        talk = session(self._client, self._folder / "main.prompty", run, task_queue=QUEUE)
        for number in range(TURNS):
            turn = f"{run}.{number}"

            async def send(turn: str = turn) -> RunHandle:
                text = mark(turn, "session")
                return await talk.send(text, message_id=turn, while_busy="queue")

            handle = await self._persist(send)
            self.note("turn", run, text=turn)
            result = await self._persist(handle.result)
            self.note("turn_ended", run, text=turn, output=str(result.output))
        await self._persist(talk.close)

    async def _gateway(self, shape: str, run: str) -> None:
        """A client that asks again under its key until an answer has come whole."""
        body = {"model": "main", "stream": True}
        body["messages"] = [{"role": "user", "content": mark(run, shape)}]
        headers = {"Idempotency-Key": run, "Authorization": "Bearer any"}
        self.note("asked", run, shape=shape)
        while True:
            try:
                answer, ends, id = await self._asked(body, headers)
            except httpx2.HTTPError:
                answer = None
            if answer is not None:
                break
            await asyncio.sleep(1)
        self.note("answered_whole", run, shape=shape, id=id, ends=ends, output=answer)

    async def _asked(
        self, body: dict[str, Any], headers: dict[str, str]
    ) -> tuple[str | None, int, str]:
        text, ends = "", 0
        url = f"{self._url}/v1/chat/completions"
        async with (
            httpx2.AsyncClient(timeout=120) as http,
            http.stream("POST", url, json=body, headers=headers) as response,
        ):
            if response.status_code != 200:
                return None, 0, ""
            async for line in response.aiter_lines():
                if line == "data: [DONE]":
                    ends += 1
                elif line.startswith("data: "):
                    piece = json.loads(line[6:])
                    if "error" in piece:
                        return None, 0, ""
                    for choice in piece.get("choices", ()):
                        text += choice["delta"].get("content") or ""
            id = response.headers.get("x-perdure-run", "")
        return (text.strip() if ends else None), ends, id


async def main(folder: str, services: str, gateway: str, runs: str, at_once: str) -> None:
    client = await patiently_connected()
    load = Load(client, Path(folder), services, gateway)
    turns = asyncio.Semaphore(int(at_once))
    stop = Path(folder) / "stop"

    async def one(number: int) -> None:
        async with turns:
            if not stop.exists():
                shape = SHAPES[number % len(SHAPES)]
                await load.play(shape, f"c{number:04d}-{shape}")

    await asyncio.gather(*(one(number) for number in range(int(runs))))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
