"""One attempt of a model call in which the model is told of its tools in the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from ..agent import Agent
from ..messages import Message, ModelReply
from ..options import RunOptions
from ..protocol.activities import ModelInput
from ..providers.prompted.call import PromptedCall
from .heartbeat import Heart
from .model import ask_model
from .run_cache import current_link


async def ask_prompted(
    input: ModelInput, agent: Agent, messages: Sequence[Message], options: RunOptions, heart: Heart, **more: Any
) -> ModelReply:
    """The model's reply, with the tool calls that its text asks for; `more` is as for `ask_model`.

    Only its answer is streamed, not what it writes while it may act. Raises what `ask_model` raises.
    """
    assert input.prompted
    if input.prompted == "act":
        options = options.model_copy(update={"stream": False, "raw": False})
    # Ids are unique in the conversation, which other runs may have begun; and short, for people type them.
    run = blake2b(current_link().workflow_id.encode(), digest_size=4).hexdigest()
    call = PromptedCall(
        agent, input.prompted, step=input.step, max_steps=options.max_iterations, ids=f"{run}-{input.iteration}"
    )
    return call.read(await ask_model(call.agent, call.messages(messages), options, heart, **more))
