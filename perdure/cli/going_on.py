"""Says how to go on from a run that a limit has ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..shell import shell_word
from .console import say
from .run_options import option_name

if TYPE_CHECKING:
    from temporalio.client import Client

    from ..errors import RunError


async def say_how_to_go_on(client: Client, run_id: str, error: RunError) -> None:
    """Name the option of the limit that ended the run, and the command that goes on; nothing after another error."""
    from ..errors import LimitExceededError, MaxIterationsError
    from ..loop.limits import is_uncertain
    from ..options import RunOptions
    from .recorded import read_recorded

    if not isinstance(error, LimitExceededError | MaxIterationsError) or is_uncertain(error):
        return
    field = "max_iterations" if isinstance(error, MaxIterationsError) else ""
    named = re.search(r"\bmax_\w+", f"{error.reason} {error}")
    if not field and named and named[0] in RunOptions.model_fields:
        field = named[0]
    options = (await read_recorded(client, run_id)).input.options
    limit = getattr(options, field or "max_repeated_calls")
    more = f" {option_name(field or 'max_repeated_calls')} {2 * limit:g}" if limit else ""
    say(f'  go on from there: perdure run --continue {shell_word(run_id)}{more} "go on"')
