"""Requests of chat front ends outside the conversation: titles, tags, follow-ups. They are answered
without tools.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

TASK_HEADER = "x-perdure-task"
"""Names the task of a request that is not a turn, for front ends that can set headers (Open WebUI:
`{{TASK}}`)."""

_OPEN_WEBUI = "### Task:"
_IS_REAL = "Respond to the user query using the provided context"
"""The second line of a turn with files, whose first line resembles a task."""
_TASKS = {
    "Generate a concise title summarizing": ("title", {"title": ""}),
    "Generate 1-3 broad tags categorizing": ("tags", {"tags": []}),
    "Predict 3-5 useful messages": ("follow_ups", {"follow_ups": []}),
    "Suggest 3-5 relevant follow-up questions": ("follow_ups", {"follow_ups": []}),
    "Analyze the chat history to determine the necessity of generating search queries": (
        "queries",
        {"queries": []},
    ),
    "You are an autocompletion system": ("autocompletion", {"text": ""}),
    "Generate a detailed prompt for am image generation task": ("image_prompt", {"prompt": ""}),
}
"""The beginning of a line that describes the task → its name, and its empty answer."""
_COMPACTION = "Summarize the conversation history that will be compacted"
_PLAIN = {
    "Your task is to reflect the speaker's likely facial expression": "emoji",
    "Provide a concise, 5-word-or-less title for the conversation": "plain_title",
    "Analyze this conversation and provide:": "plain_title",
}
"""Texts of LibreChat and of front ends without the mark."""
NEEDS_A_MODEL = frozenset({"compaction"})
"""Tasks whose answer replaces the conversation: an empty answer would lose it."""


def task_of(headers: Mapping[str, str], messages: int, text: str) -> str | None:
    """Return the name of the request's task; None for a turn of a conversation.

    `messages` is the number of messages in the request, `text` the text of its last user message.
    """
    if TASK_HEADER in headers:
        return headers[TASK_HEADER].strip() or None
    lines = [line.strip() for line in text.strip()[:4000].splitlines()]
    if messages > 2 or not lines or any(line.startswith(_IS_REAL) for line in lines[:3]):
        return None
    marks = {begin: name for begin, (name, _) in _TASKS.items()} | {_COMPACTION: "compaction"}
    if lines[0].startswith(_OPEN_WEBUI) and (name := _named_by(marks, lines[:12])):
        return name
    return _named_by(_PLAIN, lines[:1])


def without_files(text: str) -> str:
    """Return the user's own text. Open WebUI puts excerpts from files before a turn's last message,
    and omits them when the message is repeated in the history.
    """
    if not text.startswith(_OPEN_WEBUI) or not any(
        line.startswith(_IS_REAL) for line in text[:4000].splitlines()[:3]
    ):
        return text
    return text.rpartition("</context>")[2].strip()


def _named_by(marks: Mapping[str, str], lines: Sequence[str]) -> str | None:
    """Return the name of the first mark at the beginning of a line."""
    return next(
        (name for line in lines for begin, name in marks.items() if line.startswith(begin)), None
    )


def empty_answer(task: str) -> str:
    """Return the empty answer to a task."""
    for name, answer in _TASKS.values():
        if task in (name, f"{name}_generation"):
            return json.dumps(answer)
    return ""
