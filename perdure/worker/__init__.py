"""Assembles a worker from the workflow, the activities, and the user's tools, guardrails and
compactors.
"""

from .assembly import create_worker
from .memory import tune_process
from .metrics import HISTOGRAM_BUCKETS, metrics_runtime
from .plugin import PerdurePlugin

__all__ = ["HISTOGRAM_BUCKETS", "PerdurePlugin", "create_worker", "metrics_runtime", "tune_process"]
