"""What the model says in runs of each shape. Server, load and checker read it; perdure does not."""

from __future__ import annotations

import re
from typing import Any

Calls = list[tuple[str, dict[str, Any]]]
"""The calls of one reply: tool and arguments. `text` is added: it names run, step and place."""

STEP: Calls = [("step", {})]
PAY: Calls = [("pay", {})]
ALL_AT_ONCE: Calls = [(name, {}) for name in ("step", "pay", "add_entry", "put_entry")]
SCRIPTS: dict[str, list[Calls]] = {
    "plain": [STEP, PAY, STEP],
    "parallel": [ALL_AT_ONCE, ALL_AT_ONCE],
    "kinds": [[("in_thread", {}), ("local_note", {})], [("apart", {})], [("write_note", {})]],
    "http": [[("add_entry", {})], [("put_entry", {}), ("step", {})]],
    "approval": [[("approved", {}), ("step", {})], PAY],
    "denied": [[("approved", {})], STEP],
    "question": [[("ask_user", {"question": "Which one?"})], STEP],
    "steered": [[("slow", {})], [("slow", {})], STEP],
    "child": [[("clerk", {})], STEP],
    "clerk": [STEP],
    "handoff": [[("transfer_to_billing", {})], PAY],
    "session": [STEP],
    "forked": [STEP, PAY],
    "gateway": [STEP, STEP],
    "webhook": [STEP],
    "cancelled": [[("slow", {})]] * 12,
    "hung": [[("hangs", {})], STEP],
    "large": [[("large", {})], STEP],
}
ONCE = ("pay", "add_entry", "approved", "write_note")
"""Tools whose effect may never come twice."""
WITHOUT_TEXT = ("ask_user", "transfer_to_billing")
"""Tools that are perdure's own."""
MARK = re.compile(r"run=(\S+) shape=(\w+)")


def mark(run: str, shape: str) -> str:
    """The user's message with which a run of this shape begins."""
    return f"run={run} shape={shape}"


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content)


def position(messages: list[dict[str, Any]]) -> tuple[str, str, int]:
    """Run, shape and step of a request: the last mark counts, and the replies since. Raises
    `LookupError` without a mark.
    """
    for index in range(len(messages) - 1, -1, -1):
        found = MARK.search(text_of(messages[index]))
        if found and messages[index]["role"] == "user":
            replies = sum(message["role"] == "assistant" for message in messages[index:])
            return found[1], found[2], replies
    raise LookupError("no message of the request has a mark")


def reply(run: str, shape: str, step: int) -> dict[str, Any]:
    """The assistant's message of that step."""
    script = SCRIPTS[shape]
    if step >= len(script):
        return {"role": "assistant", "content": f"done {run}"}
    calls = []
    for place, (name, arguments) in enumerate(script[step]):
        text = f"{run}/{step}/{place}"
        if name == "clerk":
            arguments = {"question": mark(f"{run}/clerk", "clerk")}
        elif name not in WITHOUT_TEXT:
            arguments = {**arguments, "text": text}
        calls.append((f"call_{step}_{place}", name, arguments))
    return {"role": "assistant", "content": None, "calls": calls}
