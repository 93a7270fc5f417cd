"""For tests of agents: runs without a server, and a model that plays a script over real HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # For type checkers; the table below has the same names at runtime.
    from .comparison import Comparison as Comparison
    from .comparison import rerun as rerun
    from .in_process import InProcessRun as InProcessRun
    from .in_process import run_in_process as run_in_process
    from .recorded_run import RecordedRun as RecordedRun
    from .recorded_run import recorded as recorded
    from .recording import Diverged as Diverged
    from .recording import Recording as Recording
    from .recording import read_recording as read_recording
    from .script import Script as Script
    from .script import ScriptedReply as ScriptedReply
    from .script import ScriptedRequest as ScriptedRequest
    from .script import asks as asks
    from .script import call as call
    from .script import says as says
    from .server import ScriptedModel as ScriptedModel
else:
    from .._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            ".in_process": "InProcessRun run_in_process",
            ".recorded_run": "RecordedRun recorded",
            ".recording": "Diverged Recording read_recording",
            ".script": "asks call says Script ScriptedReply ScriptedRequest",
            ".comparison": "Comparison rerun",
            ".server": "ScriptedModel",
        },
    )
