"""An MCP server's questions to a person during a call, as questions of the run, and the answers in
the server's form.

The call ends with the first question; the run waits for the answer, outside any worker, and repeats
the call with it.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from mcp import types
from pydantic import BaseModel

from ...json_types import JsonObject
from ...messages import Answered, Needed
from ...text import bounded_text, one_line, visible
from ..validation import edited_problems

MAX_STATE_BYTES = 64 * 1024
"""Limit for the state that a server wants back with the answers: the run records it with each
question."""
MAX_MESSAGE_BYTES = 4 * 1024
_YES_NO = ["yes", "no"]
_DONE = "done"


class UnfitAnswer(Exception):
    """An answer that the server would not accept; the text has the reason and the expected form."""


class Elicitation(BaseModel):
    """The questions of one call: the remaining ones, of which the first is asked, and the answers
    so far.
    """

    left: dict[str, types.ElicitRequest] = {}
    given: dict[str, types.ElicitResult] = {}
    request_state: str | None = None

    @classmethod
    def of(cls, asked: types.InputRequiredResult) -> Elicitation | None:
        """Return a server's questions to a person; None if it asks for anything else, or for too
        much.
        """
        requests = asked.input_requests or {}
        if not all(
            isinstance(each, types.ElicitRequest) and _is_answerable(each.params)
            for each in requests.values()
        ):
            return None
        asking = cls.model_validate({"left": requests, "request_state": asked.request_state})
        return asking if len(asking.model_dump_json()) <= MAX_STATE_BYTES else None

    @classmethod
    def after(cls, answered: Answered) -> Elicitation:
        """Return the questions, the first of them answered. Raises UnfitAnswer."""
        asking = cls.model_validate(answered.state)
        key = next(iter(asking.left))
        asking.given[key] = _result(asking.left.pop(key).params, answered.text)
        return asking

    def as_need(self, server: str, problem: str = "") -> Needed:
        """Return the first remaining question in the run's form; `problem` is the fault of an
        earlier answer.
        """
        asked = next(iter(self.left.values())).params
        more, choices = _question(asked)
        message = f"{server} asks: {bounded_text(visible(asked.message), MAX_MESSAGE_BYTES)}"
        question = "\n".join(filter(None, [problem, message, *more]))
        state = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Needed(question=question, choices=choices, allow_other=not choices, state=state)


def _is_answerable(asked: types.ElicitRequestParams) -> bool:
    """Return whether a person can be asked; a link must lead to a web page, not for example to a
    script.
    """
    if not isinstance(asked, types.ElicitRequestURLParams):
        return True
    try:
        address = urlsplit(asked.url)
    except ValueError:
        return False
    return address.scheme in ("http", "https") and bool(address.hostname)


def _question(asked: types.ElicitRequestParams) -> tuple[list[str], list[str]]:
    """Return the lines after the server's message, and the answers to choose from."""
    if isinstance(asked, types.ElicitRequestURLParams):
        where = f"{one_line(asked.url, 2000)} (on {urlsplit(asked.url).hostname})"
        return [f"Open {where} and answer {_DONE!r} when you have done so."], [_DONE]
    fields = _fields(asked)
    lines = [
        one_line(f"{name}: {json.dumps(each, ensure_ascii=False)}", 1000)
        for name, each in fields.items()
    ]
    if len(fields) != 1:
        required = asked.requested_schema.get("required") or "none"
        lead = (
            f"Answer with a JSON object of these fields (required: {one_line(str(required), 200)}):"
        )
        return ([lead, *lines], []) if fields else ([], _YES_NO)
    [schema] = fields.values()
    if schema.get("type") == "boolean":
        return lines, _YES_NO
    named = schema.get("enum") or [each["const"] for each in schema.get("oneOf") or ()]
    return lines, [str(each) for each in named]


def _fields(asked: types.ElicitRequestFormParams) -> dict[str, JsonObject]:
    return asked.requested_schema.get("properties") or {}


def _result(asked: types.ElicitRequestParams, text: str | None) -> types.ElicitResult:
    """Return the answer in the server's form; None declines. Raises UnfitAnswer."""
    fields = _fields(asked) if isinstance(asked, types.ElicitRequestFormParams) else {}
    if text is None or (not fields and text == "no"):
        return types.ElicitResult(action="decline")
    if isinstance(asked, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    content = (
        _value(text, {"type": "object"})
        if len(fields) > 1
        else {key: _value(text, fields[key]) for key in fields}
    )
    if not isinstance(content, dict):
        raise UnfitAnswer(
            f"The answer {one_line(text, 200)!r} does not fit: expected a JSON object"
        )
    if problems := edited_problems(asked.requested_schema, content):
        raise UnfitAnswer(f"The answer {one_line(text, 200)!r} does not fit: {'; '.join(problems)}")
    return types.ElicitResult(action="accept", content=content)


def _value(text: str, schema: JsonObject) -> Any:
    """Return the answer as a value of the schema's type, if possible."""
    if schema.get("type", "string") == "string":
        return text
    if schema["type"] == "boolean":
        return text == "yes"
    try:
        return json.loads(text)
    except ValueError:
        return text
