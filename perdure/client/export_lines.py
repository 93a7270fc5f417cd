"""The lines of an export that tell of calls: their fields are documented in `perdure docs export`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from ..agent import Model
from ..history.called import Called, ModelCall, Times
from ..history.rounds import steering_in
from ..json_types import JsonObject
from ..messages import ToolResult
from ..operations import Operation


def model_call(call: ModelCall, model: Model) -> JsonObject:
    """The line of one try of a model call."""
    reply = call.reply
    return {
        "iteration": call.iteration,
        "try": call.number,
        "settings": {
            "provider": model.provider_key,
            "model": model.id,
            "apiType": model.api_type,
            "options": dumped(model.options) if model.options else {},
            "withTools": call.with_tools,
        },
        "steering": steering_in(call.operations),
        "operations": operations_of(call.operations),
        "messages": call.messages,
        "reply": dumped(reply) if reply else None,
        "failure": call.failure,
        **asdict(call.times),
    }


def tool_call(called: Called) -> JsonObject:
    """The line of one tool call of the model."""
    execution, result, told = called.execution, called.result, called.told
    run = execution.run if execution else None
    is_shown_whole = result is not None and told is not None and _same(result, told)
    return {
        "iteration": called.iteration,
        "index": called.index,
        "id": called.call.id,
        "name": called.call.name,
        "asked": called.call.arguments,
        "arguments": execution.arguments if execution else None,
        "by": execution.by if execution else None,
        "status": told.status if told else result.status if result else "running",
        "result": dumped(result) if result else None,
        **({} if is_shown_whole else {"told": dumped(told) if told else None}),
        "childRun": {"id": run[0], "firstRunId": run[1]} if run else None,
        "executions": execution.count if execution else 0,
        **asdict(execution.times if execution else Times()),
    }


def _same(result: ToolResult, told: ToolResult) -> bool:
    return (result.parts, result.status) == (told.parts, told.status)


def operations_of(operations: Sequence[Operation]) -> list[JsonObject]:
    """The changes of a conversation, as JSON."""
    return [dumped(operation) for operation in operations]


def dumped(value: BaseModel) -> Any:
    """The value as JSON, under the names that files use, without what is absent."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)
