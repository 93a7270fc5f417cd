"""What a docstring says of the parameters reaches the model (§11)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from perdure.agents import Agent
from perdure.json_types import JsonObject
from perdure.providers import to_request
from perdure.tools import clear_tools
from perdure.tools.declaration import completed_declaration, written_declaration


@pytest.fixture(autouse=True)
def _forget_tools() -> Iterator[None]:
    yield
    clear_tools()


def google(topic: str, limit: int = 5, *, exact: bool = False) -> list[str]:
    """Find books
    on a topic.

    The catalogue is searched as it was yesterday.

    Args:
        topic: What the books are about,
            in a word.
        limit (int): How many at most.

    Returns:
        Their titles.
    """
    return []


def numpy(topic: str, limit: int = 5, *, exact: bool = False) -> list[str]:
    """Find books on a topic.

    Parameters
    ----------
    topic : str
        What the books are about,
        in a word.
    limit : int, optional
        How many at most.
    """
    return []


def sphinx(topic: str, limit: int = 5, *, exact: bool = False) -> list[str]:
    """Find books on a topic.

    :param topic: What the books are about,
        in a word.
    :param int limit: How many at most.
    :returns: Their titles.
    """
    return []


def without_a_gap(topic: str, limit: int = 5, *, exact: bool = False) -> list[str]:
    """Find books on a topic.
    :param topic: What the books are about, in a word.
    :param limit: How many at most."""
    return []


def offered(function: Callable[..., Any]) -> JsonObject:
    """The function as OpenAI's API is told of it."""
    tool = written_declaration("find", function)
    agent = Agent.model_validate(
        {"model": {"id": "m"}, "tools": [{"name": "find", "kind": "function"}]}
    )
    agent = agent.model_copy(update={"tools": [completed_declaration(agent.tools[0], function)]})  # type: ignore[index]
    assert tool.parameters == agent.tools[0].parameters  # type: ignore[index, union-attr]
    told: JsonObject = to_request(agent, [])["tools"][0]["function"]
    return told


@pytest.mark.parametrize("function", [google, numpy, sphinx, without_a_gap])
def test_parameters_are_described_by_the_docstring_with_their_defaults(
    function: Callable[..., Any],
) -> None:
    told = offered(function)
    assert told["description"] == "Find books on a topic."
    assert told["parameters"]["properties"] == {
        "topic": {"type": "string", "description": "What the books are about, in a word."},
        "limit": {"type": "integer", "description": "How many at most.", "default": 5},
        "exact": {"type": "boolean", "default": False},
    }


def test_an_annotation_comes_before_the_docstring() -> None:
    def find(topic: Annotated[str, "One word."]) -> None:
        """Find.

        Args:
            topic: Something.
        """

    assert offered(find)["parameters"]["properties"]["topic"]["description"] == "One word."


@pytest.mark.parametrize(
    "text", ["", "Only this.", "Args:\n", "A\n\n  : :\n---\n Args:\n   :param", "Two\nlines."]
)
def test_any_docstring_is_taken(text: str) -> None:
    def find(topic: str) -> None: ...

    find.__doc__ = text
    assert offered(find)["parameters"]["properties"]["topic"]["type"] == "string"


def test_the_reader_of_docstrings_is_loaded_when_there_is_one_to_read() -> None:
    code = """
import json, sys
from perdure import tool
@tool
def short(a: str) -> None:
    '''One line.'''
before = "docstring_parser" in sys.modules
@tool
def long(a: str) -> None:
    '''Two.

    Args:
        a: lines
    '''
print(json.dumps([before, "docstring_parser" in sys.modules]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [False, True]
