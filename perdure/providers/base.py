"""What a provider is: to the wire, one call, from the wire (§7, §8, §11)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..agent import Agent
from ..messages import Message, ModelReply


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer that is being streamed."""

    kind: Literal["text", "thinking"]
    text: str


class Provider(ABC):
    """One provider's API, chosen by `model.provider` and `model.apiType`.

    To add one: subclass it, and register a callable `(key, api_type) -> Provider` under the provider's key
    in the entry-point group `perdure.providers`. The methods but `call` are pure.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        """The key it was found under: `openai` and `azure` may share a class."""

    @abstractmethod
    def to_request(
        self,
        agent: Agent,
        messages: Sequence[Message],
        *,
        extra_tools: Sequence[Mapping[str, Any]] = (),
        may_call_tools: bool = True,
    ) -> dict[str, Any]:
        """The keyword arguments of the SDK's call, model included (§7).

        `extra_tools` holds `{name, description?, parameters?}` of tools that are not in the file itself.
        With `may_call_tools=False` the model has to answer without tools; they are declared all the same
        where the API refuses a conversation that mentions undeclared ones.
        """

    @abstractmethod
    def process(self, agent: Agent, response: Mapping[str, Any]) -> Any:
        """The answer in a raw response: a list of ToolCall, the structured value, or the text (§8).

        ValueError with `Unexpected response format` for anything that is no response of this API.
        """

    @abstractmethod
    def reply(self, agent: Agent, response: Mapping[str, Any]) -> ModelReply:
        """The same response as the message that continues the conversation, with usage and warnings.

        ModelError of kind `invalid_response` for anything that is no response of this API.
        """

    @abstractmethod
    async def call(
        self,
        agent: Agent,
        request: Mapping[str, Any],
        *,
        timeout: float,
        on_delta: Callable[[Delta], None] | None = None,
        stream: bool = False,
    ) -> dict[str, Any]:
        """One call through the provider's SDK, without retries; the raw response, streamed or not.

        `timeout` is in seconds, for the whole call. References in the agent's connection are resolved
        already. Every failure is a ModelError; cancelling the coroutine ends the HTTP request at once.
        """


class StreamAssembler(ABC):
    """Puts the events of one stream together to the response that the call without streaming gives."""

    refusal: str = ""
    """What the model said to refuse; "" while it does not."""
    is_complete: bool = False
    """Whether the provider has said that the answer is whole."""

    @abstractmethod
    def add(self, event: Mapping[str, Any]) -> list[Delta]:
        """Takes one event, gives what it adds to the answer; ModelError when the event reports one."""

    @abstractmethod
    def response(self) -> dict[str, Any]:
        """The response so far."""
