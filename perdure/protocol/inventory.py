"""The inventory of a worker for a run: the things that it has, and those that it lacks."""

from __future__ import annotations

from typing import Literal

from pydantic import field_serializer

from ..declared_tools import Tool
from ..json_types import JsonObject
from ..messages import Exchanged, unless_empty, unless_none
from ..tool_calls import RecordedSignature, ToolSpec
from ..webhooks import Webhook


class MissingPart(Exchanged):
    """Things that a run needs and the asked worker does not have."""

    what: list[str]
    """Such as `tool find_books (kind: function)` and `guardrails 'strict'`."""
    kind: str
    """The kind of the resulting `RunError`, unless another worker has them."""
    text: str
    """The error's text: lists the worker's own things, and the command to type."""
    task_queue: str
    """The queue whose workers are asked."""
    starts: int | None = None
    """The number of times that workers began the activity before this one refused it; None if not
    counted."""


class UnavailableTool(Exchanged):
    """A declared tool that is not offered to the model, because the service behind it can't be
    reached.
    """

    name: str
    description: str | None = None
    why: str


class Inventory(Exchanged):
    """A worker's inventory for an agent. A run asks for it once, before the first model call, and
    records the answer.
    """

    tools: list[ToolSpec] = []
    hooks: dict[str, Literal["plain", "async"]] = {}
    """The registered hooks among `input`, `output`, `tool` and `compactor`, and whether each is
    async."""
    offered: list[Tool] = unless_empty([])
    """The declarations that functions complete, as the model is offered them."""
    lacking: MissingPart | None = unless_empty(None)
    """Set if the asked worker can't take the run; another worker's answer follows."""
    on_failure: Literal["fail", "hold"] | None = unless_none()
    """The worker owner's default for runs whose options leave it open."""
    webhooks: list[Webhook] = unless_empty([])
    """The worker owner's webhooks, in addition to the run's own."""
    paced: dict[str, str] = unless_empty({})
    """The calls that take a permit first (`PacedCall`), each with the task queue that issues it."""
    unasked: list[str] = unless_empty([])
    """The tools whose service has not been asked yet, and `credentials` if the worker's owner has
    not been; another answer follows."""

    unavailable: list[UnavailableTool] = unless_empty([])
    """The tools that the run does without."""
    mock_responses: list[str] | None = unless_none()
    """The answers that replace the model's, in order; None if the model is called."""
    notes: list[str] = unless_empty([])
    """Notes for people on how tools are run, each emitted as a `status` event."""

    @property
    def is_final(self) -> bool:
        """Return whether no further answer follows."""
        return self.lacking is None and not self.unasked

    @field_serializer("offered")
    def _as_in_files(self, offered: list[Tool]) -> list[JsonObject]:
        return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in offered]


class RecordedTool(Exchanged):
    """A tool as runs record it."""

    tool: Tool
    signature: RecordedSignature

    @field_serializer("tool")
    def _as_in_files(self, tool: Tool) -> JsonObject:
        return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


class WorkerQuestion(Exchanged):
    """The question to a worker whether it can take open runs."""

    variables: list[str] = []
    """Environment variables, by name."""
    calls: list[RecordedTool] = []


class WorkerAccount(Exchanged):
    """A worker's account of itself."""

    perdure: str
    """The version of the package."""
    tools: list[str] = []
    """Names of functions, sorted."""
    guardrails: list[str] = []
    compactors: list[str] = []
    kinds: list[str] = []
    """The kinds of tools that its owner added to perdure's own."""
    rates: dict[str, float] = {}
    encryption_keys: list[str] = []
    """The ids of its keys; the first one encrypts."""
    vouch_keys: list[str] = []
    """The ids of the keys by which it verifies the people who decide."""
    storage: str = ""
    """The URL of its storage (`PERDURE_STORAGE`), without secrets; "" for none."""
    variables: list[str] = []
    """The variables of the question that are set and that agents may use."""
    changes: list[str] = []
    """For each call of the question, in order, the reason why it does not fit the worker's
    function; "" if it fits."""
    open_breakers: dict[str, str] = {}
    """Model connections whose calls wait because the provider refuses them, with the kind of its
    last refusal."""
    time: float = 0.0
    """The worker's clock, in seconds since the epoch."""


class Missing(Exchanged):
    """Set while a run waits for a worker that has these things
    (`RunOptions.missing_tool_grace`).
    """

    what: list[str]
    """Such as `tool find_books (kind: function)` and `guardrails 'strict'`."""
    task_queue: str
    """The queue whose workers are asked."""
    since: float
    """Seconds since the epoch."""
