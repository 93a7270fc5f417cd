"""A scripted model, and the providers' own SDKs pointed at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from perdure.testing import ScriptedModel
from perdure.testing.script import Script

QUESTION: Any = [{"role": "user", "content": "How is Paris?"}]


class Clients:
    """Both SDKs, pointed at one scripted model, with their retries off."""

    def __init__(self, model: ScriptedModel) -> None:
        self.openai = openai.AsyncOpenAI(base_url=model.openai_endpoint, api_key="k", max_retries=0)
        self.anthropic = anthropic.AsyncAnthropic(
            base_url=model.anthropic_endpoint, api_key="k", max_retries=0
        )

    async def chat(self, messages: Any = QUESTION, **more: Any) -> Any:
        return await self.openai.chat.completions.create(model="m", messages=messages, **more)

    async def responses(self, items: Any = QUESTION, **more: Any) -> Any:
        return await self.openai.responses.create(model="m", input=items, **more)

    async def messages(self, messages: Any = QUESTION, **more: Any) -> Any:
        return await self.anthropic.messages.create(
            model="m", max_tokens=99, messages=messages, **more
        )


@pytest.fixture
async def serve() -> AsyncIterator[Any]:
    """Starts a scripted model; gives it and the clients for it."""
    started: list[tuple[ScriptedModel, Clients]] = []

    def start(script: Script, **options: Any) -> tuple[ScriptedModel, Clients]:
        model = ScriptedModel(script, **options).start()
        started.append((model, Clients(model)))
        return started[-1]

    yield start
    for model, clients in started:
        await clients.openai.close()
        await clients.anthropic.close()
        model.close()
