"""Hands a task to an agent that speaks Chat Completions: the conversation so far, and the task as
its last message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...messages import Message
from ...text import excerpt
from ..http import Content, Http, HttpAnswer, HttpFailure, HttpRequest
from .settings import RemoteSettings

USER = "user"
"""The role of the task for agents that do not know `DELEGATED`, with which a KAOS agent
distinguishes it from a person's request.
"""
MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_EXCERPT = 1000
_REFUSED = (400, 422)


async def answer_of(
    http: Http,
    settings: RemoteSettings,
    task: str,
    before: Sequence[Message],
    *,
    role: str,
    traceparent: str = "",
) -> str:
    """Return the agent's answer. If a server refuses the role of the task, it is sent again as a
    user's.

    Raises HttpFailure.
    """
    answer = await _post(http, settings, task, before, role, traceparent)
    if answer.status in _REFUSED and role != USER:
        answer = await _post(http, settings, task, before, USER, traceparent)
    if not answer.is_success:
        said = excerpt(answer.body.decode(errors="replace").strip(), _MAX_EXCERPT)
        text = f"HTTP status {answer.status}{said and f': {said}'}"
        raise HttpFailure(
            text, kind=f"http_{answer.status}", outcome_unknown=answer.outcome_unknown
        )
    if not answer.is_whole:
        raise HttpFailure(f"the answer is larger than {MAX_ANSWER_BYTES:,} bytes", kind="too_large")
    return _content(answer)


async def _post(
    http: Http,
    settings: RemoteSettings,
    task: str,
    before: Sequence[Message],
    role: str,
    traceparent: str,
) -> HttpAnswer:
    said = [{"role": message.role, "content": message.text} for message in before]
    body = {
        "model": settings.agent,
        "messages": [*said, {"role": role, "content": task}],
        "stream": False,
    }
    headers = [
        *settings.headers(),
        ("Content-Type", b"application/json"),
        ("Accept", b"application/json"),
    ]
    if traceparent:
        headers.append(("traceparent", traceparent.encode()))
    content = Content(
        json.dumps(body, ensure_ascii=False).encode(errors="replace"), "application/json"
    )
    return await http.send(
        HttpRequest("POST", settings.chat, headers, content), limit=MAX_ANSWER_BYTES
    )


def _content(answer: HttpAnswer) -> str:
    """Return the text of the first choice. Raises HttpFailure for an answer without one."""
    try:
        content = answer.json()["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        shown = excerpt(answer.body.decode(errors="replace").strip(), 200)
        raise HttpFailure(
            f"its answer makes no sense: {shown or '(empty)'}", kind="nonsense"
        ) from None
    if isinstance(content, list):
        content = "".join(_piece(part) for part in content)
    if not isinstance(content, str):
        raise HttpFailure(f"its answer has no text, but {content!r:.80}", kind="nonsense")
    return content


def _piece(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""
