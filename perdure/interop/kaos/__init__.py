"""Sessions in the terms of KAOS's memory, for programs that were written for KAOS."""

from .events import EVENT_TYPES as EVENT_TYPES
from .events import MemoryEvent as MemoryEvent
from .events import run_events as run_events
from .memory import KaosMemory as KaosMemory
from .memory import NullMemory as NullMemory
from .memory import SessionMemory as SessionMemory
from .memory import memory_from_environment as memory_from_environment
