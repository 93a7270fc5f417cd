"""What commands say about the answers in the environment that stand for a model's."""

from __future__ import annotations

import os

from .console import say
from .problems import UsageProblem


def say_mocks(*, honoured: bool) -> None:
    """Say which of the two is missing, where a worker is to honour answers that are not there, or the other way."""
    from ..mocks import VARIABLE, is_set

    if honoured and not is_set(os.environ):
        say(f"{VARIABLE} is not set: models are asked, in spite of --mock", "strong")
    elif is_set(os.environ) and not honoured:
        say(f"{VARIABLE} is set, and has no effect: models are asked, unless --mock is given")


def require_mocks(*, asked: bool, scripted: str | None, quiet: bool) -> None:
    """Say that there are answers without effect, unless a run is to take them.

    Raises `UsageProblem` when it is to take answers that are not there, or such that exclude each other.
    """
    from ..mocks import VARIABLE, is_set

    if not (asked or scripted or quiet):
        say_mocks(honoured=False)
    if asked and scripted:
        raise UsageProblem("--mock and --scripted exclude each other: both answer in the place of the model")
    if asked and not is_set(os.environ):
        raise UsageProblem(f"--mock: {VARIABLE} is not set. Expected a JSON list of answers, such as '[\"Hello\"]'")
