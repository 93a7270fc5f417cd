"""For tests of agents: runs without a server, and a model that plays a script over real HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # What type checkers read; at runtime the table below says the same.
    from .against_record import Diverged as Diverged
    from .comparison import Comparison as Comparison
    from .comparison import rerun as rerun
    from .in_process import InProcessRun as InProcessRun
    from .recorded_run import RecordedRun as RecordedRun
    from .recorded_run import recorded as recorded
    from .recording import Recording as Recording
    from .recording import read_recording as read_recording
    from .replies import asks as asks
    from .replies import call as call
    from .replies import says as says
    from .script import Script as Script
    from .script import ScriptedReply as ScriptedReply
    from .script import ScriptedRequest as ScriptedRequest
    from .server import ScriptedModel as ScriptedModel
    from .to_the_end import run_in_process as run_in_process
else:
    from .._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            ".in_process": "InProcessRun",
            ".against_record": "Diverged",
            ".recorded_run": "RecordedRun recorded",
            ".recording": "Recording read_recording",
            ".replies": "asks call says",
            ".comparison": "Comparison rerun",
            ".script": "Script ScriptedReply ScriptedRequest",
            ".server": "ScriptedModel",
            ".to_the_end": "run_in_process",
        },
    )
