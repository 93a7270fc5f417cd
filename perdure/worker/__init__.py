"""Assembles a worker: the workflow, the activities, and what the user brings."""

from .allocator import give_memory_back
from .assembly import create_worker
from .plugin import PerdurePlugin

__all__ = ["PerdurePlugin", "create_worker", "give_memory_back"]
