"""Validates the options of a run on a command line."""

from __future__ import annotations

from pydantic import ValidationError

from ..json_types import JsonView
from ..options import RunOptions
from .given import option_name
from .problems import UsageProblem


def run_options(fields: JsonView) -> RunOptions:
    """Return the options with these fields, as text or as values. Raises `UsageProblem`."""
    try:
        return RunOptions.model_validate(fields)
    except ValidationError as error:
        raise UsageProblem("; ".join(_problem_text(each) for each in error.errors())) from error


def _problem_text(error: JsonView) -> str:
    field = str(error["loc"][0]) if error["loc"] else ""
    return f"{option_name(field)} {error['input']}: {error['msg'][:1].lower()}{error['msg'][1:]}"
