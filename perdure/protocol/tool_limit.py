"""What runs and the limit of a tool over all workers say to each other."""

from __future__ import annotations

from ..messages import Exchanged


class Slot(Exchanged):
    """The right to execute one call."""

    key: str


class SlotAsked(Slot):
    """A call that asks for a slot."""

    workflow_id: str
    run_id: str
    """The link that executes the call."""
    limit: int
    """How many calls may be under way; the last one told holds."""


class AskInput(SlotAsked):
    """The input of the activity that asks."""

    tool: str
    task_queue: str


class ToolLimitState(Exchanged):
    """What the limit of one tool knows."""

    limit: int = 1
    held: list[SlotAsked] = []
    waiting: list[SlotAsked] = []


class LinksInput(Exchanged):
    """The links of which somebody asks whether they have ended."""

    links: list[SlotAsked]
