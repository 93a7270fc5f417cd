"""Sessions as programs written for KAOS read them: its memory, by its names."""

from .environment import memory_from_environment as memory_from_environment
from .event import EVENT_TYPES as EVENT_TYPES
from .event import MemoryEvent as MemoryEvent
from .memory import KaosMemory as KaosMemory
from .memory import SessionMemory as SessionMemory
from .null import NullMemory as NullMemory
from .runs import run_events as run_events
