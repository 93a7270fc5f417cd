"""What a stream amounts to: the text, the tool calls, or a failure and whether it is certain
(§8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure.agents import Agent
from perdure.errors import ModelError
from perdure.json_types import JsonObject, JsonView
from perdure.providers import StreamAssembler, provider_for
from perdure.providers.wire_format import WireFormat


def process_stream(
    events: Iterable[JsonView], *, provider: str = "openai", api_type: str = "chat"
) -> JsonObject:
    """Classifies recorded events: `{kind: provider, value}` each, any other kind being a transport
    error.

    Gives `{chunks, partialText, requiresReconciliation, completionCommitted}`. Chunks are `{kind:
    text, value}`, `{kind: tool, toolCall}` at the end, and at most one `{kind: failure, failure:
    {outcome, message}}`, after which nothing follows. A refusal is determinate; a stream that broke
    is not, because the provider may have done its work all the same.
    """
    found = provider_for(Agent(), provider=provider, api_type=api_type)
    if not isinstance(found, WireFormat):
        raise ValueError(f"Provider {provider!r} has no stream to classify")
    outcome = _Outcome()
    assembler = found.assembler()
    for event in events:
        outcome.take(event, assembler)
        if outcome.failure:
            return outcome.report()
    outcome.chunks += [
        {"kind": "tool", "toolCall": call.model_dump()}
        for call in found.read(assembler.response()).tool_calls
    ]
    return outcome.report()


class _Outcome:
    def __init__(self) -> None:
        self.chunks: list[JsonObject] = []
        self.failure: dict[str, str] | None = None
        self._text: list[str] = []

    def take(self, event: JsonView, assembler: StreamAssembler) -> None:
        if event.get("kind") != "provider":
            self._fail("indeterminate", _transport_message(event))
            return
        try:
            deltas = assembler.add(event["value"])
        except ModelError as error:
            self._fail("indeterminate", error.message)
            return
        if assembler.refusal:
            self._fail("determinate", f"Model refused: {assembler.refusal}")
            return
        texts = [delta.text for delta in deltas if delta.kind == "text"]
        self._text += texts
        self.chunks += [{"kind": "text", "value": text} for text in texts]

    def report(self) -> JsonObject:
        return {
            "chunks": self.chunks,
            "partialText": "".join(self._text),
            "requiresReconciliation": self.failure is not None
            and self.failure["outcome"] == "indeterminate",
            "completionCommitted": self.failure is None,
        }

    def _fail(self, outcome: str, message: str) -> None:
        self.failure = {"outcome": outcome, "message": message}
        self.chunks.append({"kind": "failure", "failure": self.failure})


def _transport_message(event: JsonView) -> str:
    error = event.get("error")
    nested = error.get("message") if isinstance(error, Mapping) else error
    return str(event.get("message") or nested or "The stream broke")
