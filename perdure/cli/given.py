"""The values of a command line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

SHORT_FORMS = {
    "parallel_tool_calls": "--parallel-tools",
    "max_total_tokens": "--max-tokens",
    "webhooks": "--webhook",
}
BY_CODE = ("guardrails", "compactor")
"""Fields of `RunOptions` that follow from the code that `--guardrails` and `--compactor` load."""


class Given(SimpleNamespace):
    """The values of a command line, by the names of the command's parameters.

    `options` has the fields of `RunOptions` that were typed, and `command` the command's name. A
    parameter that the command does not have is None.
    """

    def __getattr__(self, name: str) -> Any:
        return None


def option_name(field: str) -> str:
    """Return the option for a field or a parameter: `max_iterations` → `--max-iterations`."""
    return SHORT_FORMS.get(field) or f"--{field.replace('_', '-')}"
