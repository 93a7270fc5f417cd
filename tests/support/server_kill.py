"""One server, killed while ten runs are each at another point of the same conversation."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from perdure.testing import ScriptedModel

from .agents import scripted_agent
from .dev_server import DevServer
from .kills import POINTS, HeldConversation, Outcome, Point, Scene
from .workers import Nursery


@dataclass
class ServerKill:
    """What became of the runs."""

    outcomes: dict[Point, Outcome]


async def server_killed(server: DevServer, nursery: Nursery, folder: Path) -> ServerKill:
    """SIGKILL the server, start it again on its file; the one worker of all runs goes on as it
    is.
    """
    with ExitStack() as models:
        scenes: dict[Point, Scene] = {}
        for point in POINTS:
            held = HeldConversation(point)
            model = models.enter_context(ScriptedModel(held))
            scenes[point] = Scene(server.client, nursery, model, folder, server.address, held=held)
        first = scenes[POINTS[0]]
        await first.worker()
        await asyncio.gather(*[begin(scene, point, first.id) for point, scene in scenes.items()])
        killed = await server.kill()
        await server.start()
        for scene in scenes.values():
            scene.release()
        outcomes = dict(
            zip(
                scenes,
                await asyncio.gather(*[scene.outcome() for scene in scenes.values()]),
                strict=True,
            )
        )
        for point, scene in scenes.items():
            outcomes[point].resumed_after = scene.next_start(killed)
        return ServerKill(outcomes)


async def begin(scene: Scene, point: Point, task_queue: str) -> None:
    if point.kind == "tool":
        scene.hold(point)
    await scene.start(scripted_agent(scene.model, ["step"]), task_queue=task_queue)
    await scene.reach(point)
