"""Assembles a worker: the workflow, the activities, and what the user brings."""

from .assembly import create_worker
from .plugin import PerdurePlugin
from .tuning import tune_process

__all__ = ["PerdurePlugin", "create_worker", "tune_process"]
