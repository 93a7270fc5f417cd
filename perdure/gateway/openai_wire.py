"""The wire format of Chat Completions: incoming requests, and outgoing messages, usage, errors and
status lines.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.responses import JSONResponse

from ..json_types import JsonObject
from ..messages import DELEGATED, ImagePart, Message, Part, TextPart, Usage
from .problems import BadParameter, HttpProblem, Lenient, Listed
from .words import checked_source


class _Content(Lenient):
    type: str
    text: str | None = None
    image_url: JsonObject | None = None


class ChatMessage(Lenient):
    role: str
    content: str | Listed[_Content] | None = None

    @property
    def text(self) -> str:
        """The text of the content."""
        if isinstance(self.content, str):
            return self.content
        return "".join(each.text or "" for each in self.content or ())


class _StreamOptions(Lenient):
    include_usage: bool = False


class CompletionRequest(Lenient):
    """The fields with an effect; the agent itself sets the others, such as `temperature`."""

    model: str
    messages: Listed[ChatMessage] = Field(min_length=1)
    stream: bool = False
    stream_options: _StreamOptions | None = None
    n: int | None = None

    @property
    def with_usage(self) -> bool:
        """Whether the stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage


Asked = TypeVar("Asked", bound=BaseModel)


def read_request(kind: type[Asked], body: Any) -> Asked:
    """Read a request. Raises `BadParameter` for the first invalid parameter."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        parameter = ".".join(map(str, fault["loc"]))
        raise BadParameter(parameter, f"{parameter}: {fault['msg']}") from error


def request_in(body: Any) -> CompletionRequest:
    """Read a request for a completion. Raises `BadParameter`."""
    asked = read_request(CompletionRequest, body)
    if (asked.n or 1) != 1:
        raise BadParameter("n", "n: an agent gives one answer")
    return asked


def refusal_response(problem: HttpProblem) -> JSONResponse:
    """Return a problem in OpenAI's form. It tells clients not to retry a request that would fail
    again.
    """
    headers = dict(problem.headers)
    if problem.status not in (429, 503):
        headers["x-should-retry"] = "false"
    return JSONResponse(error_body(problem), status_code=problem.status, headers=headers)


def error_body(problem: HttpProblem) -> JsonObject:
    """Return the body of an error in OpenAI's form."""
    kind = "invalid_request_error" if 400 <= problem.status < 500 else "server_error"
    parameter = problem.parameter if isinstance(problem, BadParameter) else None
    return {
        "error": {"message": str(problem), "type": kind, "param": parameter, "code": problem.kind}
    }


def message_of(given: ChatMessage) -> Message:
    """Return a client's message. Client instructions become user messages: the agent has its own
    instructions.

    Raises `HttpProblem` for content that is neither text nor an image.
    """
    role = given.role if given.role in ("assistant", DELEGATED) else "user"
    if given.content is None or isinstance(given.content, str):
        return Message.model_validate(
            {"role": role, "parts": [TextPart(value=given.content or "")]}
        )
    parts: list[Part] = []
    for each in given.content:
        if each.type == "text":
            parts.append(TextPart(value=each.text or ""))
        elif (
            each.type == "image_url"
            and each.image_url
            and isinstance(each.image_url.get("url"), str)
        ):
            source = checked_source(each.image_url["url"], "messages")
            parts.append(ImagePart(source=source, detail=each.image_url.get("detail")))
        else:
            raise BadParameter(
                "messages", f"messages: content of the type {each.type!r} is not supported"
            )
    return Message.model_validate({"role": role, "parts": parts})


def usage_body(usage: Usage) -> JsonObject:
    """Return the usage in the form of Chat Completions."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
