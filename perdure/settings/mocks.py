"""Answers that replace a model's, as KAOS takes them from the environment: for tests of a deployed
agent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..errors import ConfigurationError
from ..text import valid_text

VARIABLE = "DEBUG_MOCK_RESPONSES"
"""The environment variable with the answers. `DEBUG_MOCK_RESPONSES_NAME` holds the answers of agent
NAME."""
MAX_BYTES = 256 * 1024
"""The limit of all answers of one run, which records them."""


def mock_responses(
    environment: Mapping[str, str], agent: str, *, is_called: bool = False
) -> list[str] | None:
    """Return the answers for an agent of that name, in order; None if its model is called.

    A called agent takes only the answers of its own variable: the others are for its caller. Raises
    ConfigurationError for answers that are too large to record.
    """
    own = variable_of(agent)
    names = [own] if is_called else [own, VARIABLE]
    name = next((each for each in names if environment.get(each)), None)
    if name is None:
        return None
    answers = [valid_text(each) for each in read_responses(environment[name])]
    size = sum(len(each.encode()) for each in answers)
    if size > MAX_BYTES:
        raise ConfigurationError(
            f"{name} has {size:,} bytes of answers, at most {MAX_BYTES:,} are possible"
        )
    return answers


def variable_of(agent: str) -> str:
    """Return the variable for one agent's answers alone, such as
    `DEBUG_MOCK_RESPONSES_RESEARCHER`.
    """
    return f"{VARIABLE}_{re.sub(r'[^A-Z0-9]', '_', agent.upper())}"


def is_set(environment: Mapping[str, str]) -> bool:
    """Return whether the environment has answers for any agent."""
    return any(
        value and (name == VARIABLE or name.startswith(f"{VARIABLE}_"))
        for name, value in environment.items()
    )


def read_responses(text: str) -> list[str]:
    """Answers in the variable's text: a JSON list of them, one JSON value, or plain text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    items = value if isinstance(value, list) else [value]
    return [
        item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in items
    ]
