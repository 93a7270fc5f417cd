"""The least that a run can cost: a hand-written workflow that does the same two activities with
tiny payloads.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow

from .texts import text_of

RETRY_AFTER = timedelta(minutes=5)


@workflow.defn(name="Floor", sandboxed=False)
class Floor:
    """Calls the model and the tool in turn; nothing but numbers is recorded."""

    @workflow.run
    async def run(self, rounds: int) -> int:
        for round in range(1, rounds + 2):
            asked = await workflow.execute_activity(
                "floor.call_model",
                args=[round, rounds],
                result_type=bool,
                start_to_close_timeout=RETRY_AFTER,
                heartbeat_timeout=timedelta(seconds=5),
            )
            if not asked:
                return round
            await workflow.execute_activity(
                "floor.run_tool",
                round,
                result_type=int,
                start_to_close_timeout=RETRY_AFTER,
                heartbeat_timeout=timedelta(seconds=5),
            )
        return rounds


class FloorActivities:
    """The same work as perdure's: the model is called through the real SDK, the tool makes its
    text.
    """

    def __init__(self, endpoint: str) -> None:
        from openai import AsyncOpenAI

        self._client = AsyncOpenAI(base_url=endpoint, api_key="none", max_retries=0)

    @property
    def all(self) -> list[Callable[..., Any]]:
        return [self.call_model, self.run_tool]

    @activity.defn(name="floor.call_model")
    async def call_model(self, round: int, rounds: int) -> bool:
        content = f"rounds={rounds} calls=1" + (f' \\"round\\": {round - 1}' if round > 1 else "")
        reply = await self._client.chat.completions.create(
            model="bench", messages=[{"role": "user", "content": content.replace('\\"', '"')}]
        )
        return bool(reply.choices[0].message.tool_calls)

    @activity.defn(name="floor.run_tool")
    async def run_tool(self, round: int) -> int:
        return len(text_of(round, 0))
