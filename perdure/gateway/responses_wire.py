"""The wire format of OpenAI's Responses: ids, incoming requests, and outgoing items and
responses.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, Field

from ..json_types import JsonObject, JsonView
from ..messages import FilePart, ImagePart, Message, Part, TextPart, Usage
from .problems import BadParameter, HttpProblem, Lenient, Listed
from .words import checked_source, text_and_parts

_RESPONSE_ID = re.compile(r"resp_(\d{1,6})(b?)_(.{1,400})", re.DOTALL)


@dataclass(frozen=True)
class ResponseId:
    """The run and the part of it that a response shows: after a decision about a call, the client
    gets a further response.
    """

    run: str
    part: int = 0
    """The number of requests to a person before this part began."""
    in_background: bool = False
    """Whether it lasts until the run's end, not only until the next request to a person."""

    def __str__(self) -> str:
        return f"resp_{self.part}{'b' if self.in_background else ''}_{self.run}"

    @classmethod
    def read(cls, text: str) -> ResponseId:
        """Parse an id. Raises `HttpProblem` for an invalid one."""
        if (match := _RESPONSE_ID.fullmatch(text)) is None:
            raise HttpProblem(404, "not_found", f"There is no response {text!r:.300}")
        return cls(match[3], int(match[1]), bool(match[2]))


def item_mark(run: str) -> str:
    """Return the mark that follows the kind in the ids of a run's items: any gateway finds the run
    by it.
    """
    return base64.b32encode(run.encode()).decode().rstrip("=").lower()


def run_of_item(id: str) -> str:
    """Return the run of an item. Raises `BadParameter`."""
    if id.startswith((APPROVAL, QUESTION)):
        return AskedCall.read(id).run
    mark = f"{id}_".split("_")[1].upper()
    try:
        return base64.b32decode(mark + "=" * (-len(mark) % 8)).decode()
    except ValueError as error:
        raise BadParameter(
            "input", f"input: {id!r:.200} is not an item of a response here"
        ) from error


class AskedCall(BaseModel):
    """A call that waits for a person, encoded in the id of an item: any gateway can pass the
    decision on.
    """

    run: str
    call: str
    digest: str
    part: int
    """The part of the response that follows the decision."""

    def __str__(self) -> str:
        fields = [self.run, self.call, self.digest, self.part]
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> AskedCall:
        """Return the call encoded in an id. Raises `BadParameter`."""
        try:
            encoded = text.partition("_")[2]
            padded = encoded + "=" * (-len(encoded) % 4)
            run, call, digest, part = json.loads(
                base64.b64decode(padded, altchars=b"-_", validate=True)
            )
            return cls.model_validate(
                {"run": run, "call": call, "digest": digest, "part": part}, strict=True
            )
        except (ValueError, TypeError, RecursionError) as error:
            raise BadParameter(
                "input", f"input: {text!r:.200} is not an `approval_request_id` of a response here"
            ) from error


APPROVAL, QUESTION = "mcpr_", "msgq_"
"""The prefixes of the ids of approval requests and of messages with a question."""


class _Content(Lenient):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None

    @property
    def part(self) -> Part:
        """Return the part of a message. Raises `BadParameter` for content that agents do not
        accept.
        """
        match self.type:
            case "input_text" | "output_text" | "text" | "summary_text":
                return TextPart(value=self.text or "")
            case "refusal":
                return TextPart(value=self.refusal or "")
            case "input_image" if self.image_url:
                return ImagePart(source=checked_source(self.image_url, "input"), detail=self.detail)
            case "input_file" if source := self.file_data or self.file_url:
                return FilePart(source=checked_source(source, "input"), filename=self.filename)
        raise BadParameter(
            "input",
            f"input: content of the type {self.type!r:.80} is not supported, nor are files by "
            "their id",
        )


class _Item(Lenient):
    type: str = "message"
    id: str | None = None
    role: str | None = None
    content: str | Listed[_Content] | None = None
    approval_request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None

    @property
    def message(self) -> Message:
        """Return the message. Client instructions become user messages: the agent has its own
        instructions.
        """
        role = "assistant" if self.role == "assistant" else "user"
        if self.content is None or isinstance(self.content, str):
            return Message(role=role, parts=[TextPart(value=self.content or "")])
        return Message(role=role, parts=[each.part for each in self.content])


class _Conversation(Lenient):
    id: str


Metadata = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]]


class ResponseRequest(Lenient):
    """The fields with an effect; the agent itself sets the others, such as `temperature` or
    `tools`.
    """

    model: str
    input: str | Listed[_Item] | None = None
    instructions: str | None = None
    stream: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | _Conversation | None = None
    metadata: Metadata | None = Field(default=None, max_length=16)

    @property
    def session(self) -> str | None:
        """The id of the request's session."""
        return (
            self.conversation.id
            if isinstance(self.conversation, _Conversation)
            else self.conversation
        )


@dataclass
class InputDecision:
    """A person's decision, as sent by the client."""

    call: AskedCall
    approved: bool
    reason: str


@dataclass
class ResponseInput:
    """The content of a request. Of a history in it, only decisions and new messages are trusted."""

    messages: list[Message] = field(default_factory=list)
    """The whole content, as a run's initial conversation."""
    new_messages: list[Message] = field(default_factory=list)
    """The user's messages since the agent's last message or question."""
    decisions: list[InputDecision] = field(default_factory=list)
    question: AskedCall | None = None
    """The question that `new_messages` answer."""
    run: str = ""
    """The run of the referenced items: its conversation is the history."""

    @property
    def text(self) -> str:
        """The text of the new messages, for a run in progress. Raises `BadParameter` for other
        content than text.
        """
        text, parts = self.text_and_parts
        if parts:
            raise BadParameter(
                "input", "input: a run in progress reads text only: send files when it has ended"
            )
        return text

    @property
    def text_and_parts(self) -> tuple[str, list[Part]]:
        """The new messages as one message to a session."""
        texts, parts = list[str](), list[Part]()
        for each in self.new_messages:
            text, more = ("", each.parts) if parts else text_and_parts(each.parts)
            texts.append(text)
            parts += more
        return "\n\n".join(filter(None, texts)), parts


def response_input(body: ResponseRequest) -> ResponseInput:
    """Return the content of a request. Raises `BadParameter` for invalid items."""
    input = ResponseInput()
    if body.instructions:
        input.messages.append(Message.user(body.instructions))
        input.new_messages.append(Message.user(body.instructions))
    items = (
        [_Item(role="user", content=body.input)]
        if isinstance(body.input, str)
        else body.input or []
    )
    for item in items:
        match item.type:
            case "message":
                input.messages.append(item.message)
                if item.role == "assistant":
                    input.new_messages, input.decisions = [], []
                    is_question = (item.id or "").startswith(QUESTION)
                    input.question = AskedCall.read(item.id or "") if is_question else None
                else:
                    input.new_messages.append(item.message)
            case "mcp_approval_request":
                input.new_messages = []
            case "mcp_approval_response":
                if item.approve is None or item.approval_request_id is None:
                    raise BadParameter(
                        "input", "input: mcp_approval_response has approval_request_id and approve"
                    )
                call = AskedCall.read(item.approval_request_id)
                input.decisions.append(InputDecision(call, item.approve, item.reason or "denied"))
                input.new_messages = []
            case "item_reference":
                is_question = (item.id or "").startswith(QUESTION)
                question = AskedCall.read(item.id or "") if is_question else None
                input = ResponseInput(run=run_of_item(item.id or ""), question=question)
            # Other items, such as calls, belong to a history: the agent's own runs have them.
    return input


def text_item(id: str, text: str, status: str = "completed") -> JsonObject:
    """Return the item of an agent's message."""
    content = [] if status == "in_progress" else [text_part(text)]
    return {"id": id, "type": "message", "status": status, "role": "assistant", "content": content}


def text_part(text: str) -> JsonObject:
    """Return the content of an agent's message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def usage_body(usage: Usage) -> JsonObject:
    """Return the usage in the form of Responses."""
    read, written = usage.cached_input_tokens, usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def response_body(id: ResponseId, model: str, created: float, about: JsonView) -> JsonObject:
    """Return a response without its output; `about` holds the recorded fields of the request."""
    return {
        "id": str(id),
        "object": "response",
        "created_at": int(created),
        "completed_at": None,
        "status": "queued" if id.in_background else "in_progress",
        "background": id.in_background,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": about.get("metadata") or {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": about.get("previous_response_id"),
        "conversation": about.get("conversation"),
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
    }
