"""Assembles a worker from the workflow, the activities, and the user's tools, guardrails and compactors."""

from .assembly import create_worker
from .plugin import PerdurePlugin
from .tuning import tune_process

__all__ = ["PerdurePlugin", "create_worker", "tune_process"]
