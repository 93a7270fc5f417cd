"""Marks requests for the providers' prompt caches: the prefix to keep, and the calls that belong
together.

The rules: https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching and
https://developers.openai.com/api/docs/guides/prompt-caching
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..agents import PromptCache
from ..json_types import JsonObject
from .base import CallSeries

_MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""Blocks of Anthropic's that may be marked; thinking may not."""


def with_cache_control(
    request: JsonObject, chosen: PromptCache | None, series: CallSeries
) -> JsonObject:
    """Return the request with at most four Anthropic cache marks: after the tools, after the system
    text, where the series' previous request ended, and at the end.

    The API looks for a cached prefix up to 20 blocks before a mark. The third mark finds that of
    the previous request, however many blocks the answer and its tool results take. A request with a
    mark of its agent's own is left unchanged.
    """
    if chosen == "off" or (chosen is None and not series.goes_on) or _is_marked(request):
        return request
    control = {"type": "ephemeral", "ttl": "1h"} if chosen == "1h" else {"type": "ephemeral"}
    mark = {"cache_control": control}
    marked = dict(request)
    if tools := request.get("tools"):
        marked["tools"] = _with_last(tools, _is_not_deferred, mark)
    system = request.get("system")
    if isinstance(system, str | list) and _is_not_blank(system):
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
        marked["system"] = _with_last(blocks, _is_markable, mark)
    # Without tools to choose from, the messages form another prefix, which no later request shares.
    if series.goes_on and request.get("tool_choice") != {"type": "none"}:
        turns = marked["messages"] = [*request["messages"]]
        for index in _marked_turns(turns):
            turns[index] = turns[index] | {
                "content": _with_last(turns[index]["content"], _is_markable, mark)
            }
    return marked


def _marked_turns(turns: Sequence[JsonObject]) -> Iterable[int]:
    """Return the indexes of the turns that end the series' previous request and this one: that
    before the last answer, and the last."""
    if not turns:
        return ()
    answer = next(
        (index for index in reversed(range(len(turns))) if turns[index]["role"] == "assistant"), 0
    )
    return sorted({max(0, answer - 1), len(turns) - 1})


def _with_last(blocks: Any, is_markable: Any, mark: JsonObject) -> Any:
    """Return the blocks with the mark on the last one that may have it."""
    index = next(
        (index for index in reversed(range(len(blocks))) if is_markable(blocks[index])), None
    )
    return (
        blocks
        if index is None
        else [*blocks[:index], {**blocks[index], **mark}, *blocks[index + 1 :]]
    )


def _is_not_deferred(tool: Any) -> bool:
    return isinstance(tool, dict) and not tool.get("defer_loading")


def _is_markable(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and block.get("type") in _MARKABLE
        and _is_not_blank(block.get("text", "-"))
    )


def _is_not_blank(text: Any) -> bool:
    return bool(text and not (isinstance(text, str) and text.isspace()))


def _is_marked(request: JsonObject) -> bool:
    system = request.get("system")
    groups = [request.get("tools") or (), system if isinstance(system, list) else ()]
    groups += [turn["content"] for turn in request["messages"]]
    return "cache_control" in request or any(
        _has(block, "cache_control") for group in groups for block in group
    )


def _has(block: Any, name: str) -> bool:
    return isinstance(block, dict) and bool(block.get(name))


def with_cache_key(
    request: JsonObject, chosen: PromptCache | None, series: CallSeries, *, is_own: bool
) -> JsonObject:
    """Return the request with its series as OpenAI's cache key. Servers that are not OpenAI's own
    get the key only if the agent's file asks for a cache.
    """
    is_wanted = is_own if chosen is None else chosen != "off"
    known = series.goes_on and series.key
    return {"prompt_cache_key": series.key, **request} if is_wanted and known else request
