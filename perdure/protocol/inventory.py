"""What a worker has for a run, and what it lacks."""

from __future__ import annotations

from typing import Literal

from pydantic import field_serializer

from ..declared_tools import Tool
from ..json_types import JsonObject
from ..messages import Exchanged, unless_empty, unless_none
from ..tool_calls import RecordedSignature, ToolSpec
from ..webhooks import Webhook


class Lacking(Exchanged):
    """What a run needs, and the worker that was asked does not have."""

    what: list[str]
    """Such as `tool find_books (kind: function)` and `guardrails 'strict'`."""
    kind: str
    """The kind of the `RunError` that it leads to, unless another worker has it."""
    text: str
    """The error's text, with what this worker has and what to type."""
    task_queue: str
    """The queue whose workers are asked."""
    starts: int | None = None
    """How often workers had begun with the activity before this one refused it; None where nobody has counted."""


class UnavailableTool(Exchanged):
    """A declared tool that the model is not offered, because what it asks is out of reach."""

    name: str
    description: str | None = None
    why: str


class Inventory(Exchanged):
    """What a worker has for an agent. A run asks for it once, before the first model call, and records the answer."""

    tools: list[ToolSpec] = []
    hooks: dict[str, Literal["plain", "async"]] = {}
    """Those of `input`, `output`, `tool` and `compactor` that are registered, and whether they are async."""
    offered: list[Tool] = unless_empty([])
    """The declarations that leave something to their functions, with what those say: what the model is offered."""
    lacking: Lacking | None = unless_empty(None)
    """Set if the worker that was asked can't take the run; another one's answer follows."""
    on_failure: Literal["fail", "hold"] | None = unless_none()
    """What becomes of a run whose options do not say so, by the word of the worker's owner."""
    webhooks: list[Webhook] = unless_empty([])
    """Those of the worker's owner, beside the run's own."""
    paced: dict[str, str] = unless_empty({})
    """The calls that take a permit first (`PacedCall`), with the task queue that gives it out."""
    unasked: list[str] = unless_empty([])
    """The tools whose offer is not known yet, because others have to be asked, and `credentials` where the worker's
    owner has to be; another answer follows."""

    unavailable: list[UnavailableTool] = unless_empty([])
    """The tools that the run does without."""
    mock_responses: list[str] | None = unless_none()
    """The answers that stand for the model's, in order; None where the model is asked."""
    notes: list[str] = unless_empty([])
    """What people should know of how tools are run, each as a `status` event."""

    lock_changes: list[str] = unless_empty([])
    """What tools offer otherwise than the lock beside the agent's file says, a line each."""
    asks_about_changes: bool = unless_empty(False)
    """Whether a person may let the run go on with that."""

    @property
    def is_final(self) -> bool:
        """Return whether this is the answer that holds."""
        return self.lacking is None and not self.unasked

    @field_serializer("offered")
    def _as_in_files(self, offered: list[Tool]) -> list[JsonObject]:
        return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in offered]


class RecordedTool(Exchanged):
    """A tool as runs have recorded it."""

    tool: Tool
    signature: RecordedSignature

    @field_serializer("tool")
    def _as_in_files(self, tool: Tool) -> JsonObject:
        return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


class WorkerQuestion(Exchanged):
    """The question whether a worker can take open runs."""

    variables: list[str] = []
    """Environment variables, by name."""
    calls: list[RecordedTool] = []


class WorkerAccount(Exchanged):
    """What a worker tells of itself."""

    perdure: str
    """The version of the package."""
    tools: list[str] = []
    """Names of functions, sorted."""
    guardrails: list[str] = []
    compactors: list[str] = []
    kinds: list[str] = []
    """Kinds of tools that its owner has given, besides perdure's own."""
    rates: dict[str, float] = {}
    encryption_keys: list[str] = []
    """Ids of its keys; the first one encrypts."""
    vouch_keys: list[str] = []
    """Ids of the keys by which it knows who decides."""
    storage: str = ""
    """The URL of its storage (`PERDURE_STORAGE`), without secrets; "" for none."""
    variables: list[str] = []
    """Those of the question that are set, and that agents may use."""
    changes: list[str] = []
    """Why the calls of the question do not fit its functions, in their order; "" for one that does."""
    open_breakers: dict[str, str] = {}
    """Model connections whose calls wait because the provider refuses them, with the kind of its last refusal."""
    time: float = 0.0
    """By its clock, in seconds since the epoch."""


class Missing(Exchanged):
    """What a run waits for: a worker that has it (`RunOptions.missing_tool_grace`)."""

    what: list[str]
    """Such as `tool find_books (kind: function)` and `guardrails 'strict'`."""
    task_queue: str
    """The queue whose workers are asked."""
    since: float
    """Seconds since the epoch."""
