"""The wire of OpenAI's Responses: ids, requests as they come, items and whole responses as they go."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field

from ..json_types import JsonObject, JsonView
from ..messages import FilePart, ImagePart, Message, Part, TextPart, Usage
from .openai_wire import BadParameter
from .problems import HttpProblem, Lenient, Listed

_RESPONSE_ID = re.compile(r"resp_(\d{1,6})(b?)_(.{1,400})", re.DOTALL)


@dataclass(frozen=True)
class ResponseId:
    """Which part of which run a response is: a client that decides about a call gets what follows as another one."""

    run: str
    part: int = 0
    """How many calls had asked for a person before it began."""
    in_background: bool = False
    """Whether it lasts until the run has ended, and not only until a person is asked."""

    def __str__(self) -> str:
        return f"resp_{self.part}{'b' if self.in_background else ''}_{self.run}"

    @classmethod
    def read(cls, text: str) -> ResponseId:
        """Return what the text means. Raises `HttpProblem` for what is no id."""
        if (match := _RESPONSE_ID.fullmatch(text)) is None:
            raise HttpProblem(404, "not_found", f"There is no response {text!r:.300}")
        return cls(match[3], int(match[1]), bool(match[2]))


def item_mark(run: str) -> str:
    """Return what the ids of a run's items have after their kind: any gateway finds the run by it."""
    return base64.b32encode(run.encode()).decode().rstrip("=").lower()


def run_of_item(id: str) -> str:
    """Return the run that an item is of. Raises `BadParameter`."""
    if id.startswith((APPROVAL, QUESTION)):
        return AskedCall.read(id).run
    mark = f"{id}_".split("_")[1].upper()
    try:
        return base64.b32decode(mark + "=" * (-len(mark) % 8)).decode()
    except ValueError as error:
        raise BadParameter("input", f"input: {id!r:.200} is not an item of a response here") from error


class AskedCall(BaseModel):
    """A call that waits for a person, as the id of an item has it: any gateway can pass the decision on."""

    run: str
    call: str
    digest: str
    part: int
    """Of the response in which what follows the decision is."""

    def __str__(self) -> str:
        fields = [self.run, self.call, self.digest, self.part]
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> AskedCall:
        """Return the call that an id means. Raises `BadParameter`."""
        try:
            encoded = text.partition("_")[2]
            padded = encoded + "=" * (-len(encoded) % 4)
            run, call, digest, part = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            return cls.model_validate({"run": run, "call": call, "digest": digest, "part": part}, strict=True)
        except (ValueError, TypeError, RecursionError) as error:
            raise BadParameter(
                "input", f"input: {text!r:.200} is not an `approval_request_id` of a response here"
            ) from error


APPROVAL, QUESTION = "mcpr_", "msgq_"
"""How the ids of items begin that ask for an approval, and of messages that are a question."""


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
        """As a part of a message. Raises `BadParameter` for what an agent can't be given."""
        match self.type:
            case "input_text" | "output_text" | "text" | "summary_text":
                return TextPart(value=self.text or "")
            case "refusal":
                return TextPart(value=self.refusal or "")
            case "input_image" if self.image_url:
                return ImagePart(source=self.image_url, detail=self.detail)
            case "input_file" if source := self.file_data or self.file_url:
                return FilePart(source=source, filename=self.filename)
        raise BadParameter(
            "input", f"input: content of the type {self.type!r:.80} is not taken here, nor are files by their id"
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
        """As a message; what a client calls instructions is a user's word here: the agent has its own."""
        role = "assistant" if self.role == "assistant" else "user"
        if self.content is None or isinstance(self.content, str):
            return Message(role=role, parts=[TextPart(value=self.content or "")])
        return Message(role=role, parts=[each.part for each in self.content])


class _Conversation(Lenient):
    id: str


Metadata = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]]


class ResponseRequest(Lenient):
    """The fields that count; the others, such as `temperature` or `tools`, are the agent's own affair."""

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
        """The id of the session that it is a turn of."""
        return self.conversation.id if isinstance(self.conversation, _Conversation) else self.conversation


@dataclass
class SaidDecision:
    """What a person has decided, as the client says."""

    call: AskedCall
    approved: bool
    reason: str


@dataclass
class Said:
    """What a request says. Of a history that comes along, only decisions and new words are believed."""

    messages: list[Message] = field(default_factory=list)
    """All of it, as the conversation that a run begins with."""
    words: list[Message] = field(default_factory=list)
    """What is new: the user's messages since the agent has last said something, or asked."""
    decisions: list[SaidDecision] = field(default_factory=list)
    question: AskedCall | None = None
    """The question that `words` answer."""
    run: str = ""
    """The run whose items are referred to: what was said until then is its conversation."""

    @property
    def text(self) -> str:
        """The new words. Raises `BadParameter` for what is no text."""
        if any(not isinstance(part, TextPart) for each in self.words for part in each.parts):
            raise BadParameter("input", "input: a conversation continues with text: a session takes no files")
        return "\n\n".join(filter(None, (each.text for each in self.words)))


def said_in(asked: ResponseRequest) -> Said:
    """Return what a request says. Raises `BadParameter` for items that can't be."""
    said = Said()
    if asked.instructions:
        said.messages.append(Message.user(asked.instructions))
        said.words.append(Message.user(asked.instructions))
    items = [_Item(role="user", content=asked.input)] if isinstance(asked.input, str) else asked.input or []
    for item in items:
        match item.type:
            case "message":
                said.messages.append(item.message)
                if item.role == "assistant":
                    said.words, said.decisions = [], []
                    is_question = (item.id or "").startswith(QUESTION)
                    said.question = AskedCall.read(item.id or "") if is_question else None
                else:
                    said.words.append(item.message)
            case "mcp_approval_request":
                said.words = []
            case "mcp_approval_response":
                if item.approve is None or item.approval_request_id is None:
                    raise BadParameter("input", "input: mcp_approval_response has approval_request_id and approve")
                call = AskedCall.read(item.approval_request_id)
                said.decisions.append(SaidDecision(call, item.approve, item.reason or "denied"))
                said.words = []
            case "item_reference":
                is_question = (item.id or "").startswith(QUESTION)
                question = AskedCall.read(item.id or "") if is_question else None
                said = Said(run=run_of_item(item.id or ""), question=question)
            # What else there is, such as calls, are a history's: the agent's own runs have them.
    return said


def text_item(id: str, text: str, status: str = "completed") -> JsonObject:
    """Return the item of a message of the agent's."""
    content = [] if status == "in_progress" else [text_part(text)]
    return {"id": id, "type": "message", "status": status, "role": "assistant", "content": content}


def text_part(text: str) -> JsonObject:
    """Return the content of such a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def input_item(id: str, message: Message) -> JsonObject:
    """Return the item of a message, as lists of input and of conversations have it."""
    if message.role == "assistant":
        return text_item(id, message.text)
    content = [_content_of(each) for each in message.parts]
    return {"id": id, "type": "message", "status": "completed", "role": "user", "content": content}


def _content_of(part: Part) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.value}
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": part.source, "detail": part.detail or "auto"}
    return {"type": "input_file", "filename": getattr(part, "filename", None)}


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
    """Return a response without its output; `about` is what the request has said, as far as it is recorded."""
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


Item = TypeVar("Item", bound=JsonView)


def page_of(items: Sequence[Item], query: Mapping[str, str]) -> JsonObject:
    """Return a page of a list: `limit`, `after` and `order` say which. Raises `BadParameter`."""
    order, limit, after = query.get("order", "desc"), query.get("limit", "20"), query.get("after")
    if order not in ("asc", "desc"):
        raise BadParameter("order", f"order: expected asc or desc, not {order!r:.80}")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= 100):
        raise BadParameter("limit", f"limit: expected 1 to 100, not {limit!r:.80}")
    ordered = list(items) if order == "asc" else list(reversed(items))
    if after is not None:
        places = [place for place, each in enumerate(ordered) if each["id"] == after]
        if not places:
            raise BadParameter("after", f"after: there is no item {after!r:.80}")
        ordered = ordered[places[0] + 1 :]
    page = ordered[: int(limit)]
    first, last = (page[0]["id"], page[-1]["id"]) if page else (None, None)
    more = len(ordered) > len(page)
    return {"object": "list", "data": page, "first_id": first, "last_id": last, "has_more": more}
