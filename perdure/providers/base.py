"""What a provider does: messages to a request, one call, a response to a reply (§7, §8, §11)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..agent import Agent
from ..messages import Message, ModelReply
from ..options import DEFAULT_ANSWER_BYTES
from .media import TakenMedia

BLOCK_SIZE = 500
"""What a tool call or a content block counts for in `StreamAssembler.size`, besides its text: so much it takes."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer, as it is streamed."""

    kind: Literal["text", "thinking"]
    text: str


class Provider(ABC):
    """One provider's API, chosen by `model.provider` and `model.apiType`.

    To add one, subclass it and register a callable `(key, api_type) -> Provider` under the provider's key in
    the entry-point group `perdure.providers`. One object serves every call, in any thread: it keeps no state of
    a call. All methods except `call` are pure.
    """

    title: ClassVar[str] = "this API"
    """The API's name for people."""
    media: ClassVar[TakenMedia | None] = None
    """The images, recordings and files that the API takes, so that a run with others is not started; None: unknown."""

    def __init__(self, key: str) -> None:
        self.key = key
        """The key that the provider was found under: `openai` and `azure` share a class."""

    @abstractmethod
    def to_request(
        self,
        agent: Agent,
        messages: Sequence[Message],
        *,
        extra_tools: Sequence[Mapping[str, Any]] = (),
        may_call_tools: bool = True,
    ) -> dict[str, Any]:
        """The body of the request, model included (§7).

        `extra_tools` holds `{name, description?, parameters?}` of tools that are not in the file itself,
        `parameters` being a JSON Schema. With `may_call_tools=False` the model has to answer without tools; they
        are declared all the same where the API refuses a conversation that mentions undeclared ones. Raises
        ValueError for what the API cannot express.
        """

    @abstractmethod
    def process(self, agent: Agent, response: Mapping[str, Any]) -> Any:
        """The answer in a raw response: a list of ToolCall, the structured value, or the text (§8).

        Raises ValueError (`Unexpected response format`) for anything that is not a response of this API.
        """

    @abstractmethod
    def reply(self, agent: Agent, response: Mapping[str, Any]) -> ModelReply:
        """The answer in a raw response as the message that continues the conversation, with usage and warnings.

        Raises ModelError of kind `invalid_response` for anything that is not a response of this API.
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
        max_bytes: int = DEFAULT_ANSWER_BYTES,
    ) -> dict[str, Any]:
        """Sends the request once, without retries, and gives the raw response, streamed or not, its text valid.

        `timeout` is in seconds, for the whole call. References in the agent's connection are already resolved.
        `on_delta` sees each piece of a streamed answer; it does not raise. An answer of more than `max_bytes`,
        counted as it is unpacked, is given up. A class that lacks this parameter is called without it.
        Raises ModelError for every failure.
        Cancelling the coroutine ends the HTTP request at once.
        """


class StreamAssembler(ABC):
    """Assembles the events of one stream into the response that a call without streaming gives."""

    refusal: str = ""
    """The words in which the model refuses; "" as long as it does not."""
    is_complete: bool = False
    """Whether the provider has reported the end of the answer."""
    size: int = 0
    """About how many characters the response so far holds."""

    @abstractmethod
    def add(self, event: Mapping[str, Any]) -> list[Delta]:
        """Takes one event and gives what it adds to the answer.

        Raises ModelError for an event that reports a failure, and LookupError, TypeError or AttributeError for one
        that is not an event of this API.
        """

    @abstractmethod
    def response(self) -> dict[str, Any]:
        """The response so far; raises like `add`."""
