"""The single entry and exit of the command line."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from .app import app
from .console import give_stdout_back, say
from .problems import FAILED, INTERRUPTED, explain


def run_and_exit() -> NoReturn:
    """Run the typed command, then end the process without shutting the interpreter down.

    Threads of the Temporal SDK may crash the interpreter during its shutdown, after all work is
    done. Skipping the shutdown loses nothing: commands close what they opened, and this function
    flushes their output.
    """
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; never raises."""
    try:
        app(list(arguments), prog_name="perdure")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _report(error)
    finally:
        give_stdout_back()
    return 0


def _report(error: Exception) -> int:
    """Report an error: a sentence if the user can act on it, else the traceback."""
    from .command import say_as_configured

    say_as_configured()
    if explanation := explain(error):
        say(f"perdure: {explanation.text}", "bad")
        return explanation.exit_code
    say("".join(traceback.format_exception(error)).rstrip(), "bad")
    return FAILED
