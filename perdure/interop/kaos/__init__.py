"""Sessions as programs written for KAOS read them: its memory, by its names."""

from .event import EVENT_TYPES as EVENT_TYPES
from .event import MemoryEvent as MemoryEvent
from .runs import run_events as run_events
