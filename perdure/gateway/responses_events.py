"""Translates the events of a run into those of an OpenAI response."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..events import TERMINAL_EVENTS, RunEvent
from ..json_types import JsonObject, JsonView
from ..messages import Message, Usage
from .problems import HttpProblem
from .responses_text import Frame, ReplyText, event_number, frame_of, text_in
from .responses_wire import (
    APPROVAL,
    QUESTION,
    AskedCall,
    ResponseId,
    item_mark,
    text_item,
    text_part,
    usage_body,
)


@dataclass
class _Call:
    """A call of a tool."""

    item: str
    name: str
    arguments: str
    approval: str | None = None
    """The id of the item that asks for its approval."""
    is_faulty: bool = False


class ResponseEvents:
    """Makes the events of a response from those of its run, which must start with the run's first
    event.
    """

    def __init__(
        self, id: ResponseId, body: JsonView, *, held_back: int | None, after: int | None = None
    ) -> None:
        """`held_back` is as in `AnswerText`; `after` is the number of the client's last event."""
        self.body = dict(body)
        """The current response."""
        self.requests = 0
        """The number of requests to a person; each of several who must agree counts separately."""
        self.is_over = False
        self._id = id
        self._mark = item_mark(id.run)
        self._held_back = held_back
        self._after = -1 if after is None else after
        self._known = text_in(self._after)
        self._calls: dict[tuple[int, str | None], _Call] = {}
        self._asked: dict[str, RunEvent] = {}
        """The requests so far, by digest."""
        self._index = 0
        self._reply = ReplyText(0, self._mark, self._next_index)
        self._answer = ""
        """The text of the last message."""
        self._usage = Usage()
        self._iteration, self._seq, self._place = 0, 0, 0
        self._last = 2

    def begin(self) -> list[Frame]:
        """Return the events with which the response begins, without those that the client has."""
        under_way = {**self.body, "status": "in_progress"}
        made = [frame_of("response.created", 0, response=dict(self.body))]
        made += (
            [frame_of("response.queued", 1, response=dict(self.body))]
            if self._id.in_background
            else []
        )
        made += [frame_of("response.in_progress", 2, response=under_way)]
        return [each for each in made if each["sequence_number"] > self._after]

    def take(self, event: RunEvent) -> list[Frame]:
        """Return the response events for an event of the run, without those that the client has."""
        if self.is_over:
            return []
        self._iteration = max(event.iteration, self._iteration)
        if event.seq != self._seq:
            self._seq, self._place = event.seq, 0
        is_passed = self.requests < self._id.part and event.type not in TERMINAL_EVENTS
        made = list(self._made_by(event))
        if is_passed:
            made = []
        if made:
            self._last = made[-1]["sequence_number"]
        return [each for each in made if each["sequence_number"] > self._after]

    def failure(self, problem: HttpProblem) -> Frame:
        """Return the event for a gateway that can't continue. A client that resumes after it misses
        nothing.
        """
        last = max(self._last, self._after)
        words = f"{problem}. The run itself is not affected: ask for the response again"
        body = {**self.body, "status": "failed", "error": {"code": problem.kind, "message": words}}
        return frame_of("response.failed", last if text_in(last) else last + 1, response=body)

    def _next(self, type: str, **data: Any) -> Frame:
        number = event_number(self._iteration, self._seq, self._place)
        self._place += 1
        return frame_of(type, number, **data)

    def _made_by(self, event: RunEvent) -> Iterator[Frame]:
        match event.type:
            case "llm_start":
                yield from self._settle(None)
                yield from self._new_reply(event.iteration)
            case "text_reset":
                yield from self._reply.void()
                self._reply.text = ""
            case "token":
                yield from self._reply.add(event, self._held_back)
            case "llm_complete":
                self._usage += Usage.model_validate(event.data["usage"])
                self._reply.is_complete = True
                text = event.data.get("text", "")  # before calls of tools
                if self._held_back is not None and len(text) > self._held_back:
                    yield from self._show(text)
            case "messages_updated":
                yield from self._settle(_answer_in(event.data["messages"]))
            case "tool_call_start":
                yield from self._settle(None)
                item = f"mcp_{self._mark}_{event.seq}"
                self._calls[event.iteration, event.call_id] = _Call(
                    item, event.data["name"], event.data["arguments"]
                )
            case "error" if (event.iteration, event.call_id) in self._calls:
                self._calls[event.iteration, event.call_id].is_faulty = True
            case "permission_requested":
                yield from self._ask(event)
            case "permission_vote":
                yield from self._ask_others(event)
            case "permission_completed":
                self._note_decision(event)
            case "tool_result":
                yield from self._end_call(event)
            case "done" | "failed" | "cancelled":
                yield from self._end(event)

    def _new_reply(self, iteration: int) -> Iterator[Frame]:
        self._reply = ReplyText(iteration, self._mark, self._next_index)
        if self._known and self._known[0] == iteration:
            yield from self._reply.void_of_client(self._known[1])

    def _next_index(self) -> int:
        index, self._index = self._index, self._index + 1
        return index

    def _settle(self, text: str | None) -> Iterator[Frame]:
        """Finish the reply, once its answer is known; None if it is not an answer."""
        reply = self._reply
        if not reply.is_complete:
            return
        reply.is_complete = False
        yield from self._show(text or "")
        if not text:
            yield from reply.void()
            return
        item, reply.item = reply.item, ""
        yield from self._finish_text(item, reply.index, text)

    def _show(self, text: str) -> Iterator[Frame]:
        """Show the whole text of the reply, replacing the client's text of another one; "" for
        none.
        """
        reply = self._reply
        if not (text and text.startswith(reply.text_of_client)):
            yield from reply.void()
        reply.text = text
        if text:
            yield from reply.show()

    def _finish_text(self, id: str, index: int, text: str) -> Iterator[Frame]:
        place = {"item_id": id, "output_index": index, "content_index": 0}
        yield self._next("response.output_text.done", text=text, logprobs=[], **place)
        yield self._next("response.content_part.done", part=text_part(text), **place)
        yield self._add(index, text_item(id, text))
        self._answer = text

    def _add(self, index: int, item: JsonObject) -> Frame:
        """Add an item to the output, and return the event for it."""
        self.body["output"] = [*self.body["output"], item]
        return self._next("response.output_item.done", output_index=index, item=item)

    def _whole_text(self, id: str, text: str) -> Iterator[Frame]:
        """Make the item of a text that is not a reply."""
        index = self._next_index()
        place = {"item_id": id, "output_index": index, "content_index": 0}
        item = text_item(id, "", "in_progress")
        yield self._next("response.output_item.added", output_index=index, item=item)
        yield self._next("response.content_part.added", part=text_part(""), **place)
        yield self._next("response.output_text.delta", delta=text, logprobs=[], **place)
        yield from self._finish_text(id, index, text)

    def _note_decision(self, event: RunEvent) -> None:
        call = self._calls.get((event.iteration, event.call_id))
        if call is not None and event.data["arguments"] is not None:
            call.arguments = json.dumps(event.data["arguments"], ensure_ascii=False)

    def _item_of(self, call: _Call, status: str, result: str | None = None) -> JsonObject:
        """Return the item of a call that the agent executes itself: clients must not execute it."""
        error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": result}]}
        return {
            "id": call.item,
            "type": "mcp_call",
            "status": status,
            "server_label": self.body["model"],
            "name": call.name,
            "arguments": call.arguments,
            "output": result,
            "error": error if status == "failed" else None,
            "approval_request_id": call.approval,
        }

    def _end_call(self, event: RunEvent) -> Iterator[Frame]:
        call = self._calls.pop((event.iteration, event.call_id), None)
        if call is None:
            return
        # Not earlier: a call that waits for a person would have to end with the response, as if it
        # had a result.
        index = self._next_index()
        place = {"item_id": call.item, "output_index": index}
        yield self._next(
            "response.output_item.added",
            output_index=index,
            item=self._item_of(call, "in_progress"),
        )
        yield self._next("response.mcp_call.in_progress", **place)
        yield self._next("response.mcp_call_arguments.done", arguments=call.arguments, **place)
        is_denied = event.data.get("isDenied") or event.data.get("isCancelled")
        status = "failed" if call.is_faulty or is_denied else "completed"
        yield self._next(f"response.mcp_call.{status}", **place)
        yield self._add(index, self._item_of(call, status, event.data["result"]))

    def _ask(self, event: RunEvent) -> Iterator[Frame]:
        """Ask for a person's decision; in the foreground this ends the response."""
        self.requests += 1
        digest, call_id = event.data["digest"], event.call_id
        self._asked[digest] = event
        asked = AskedCall(run=self._id.run, call=call_id or "", digest=digest, part=self.requests)
        if event.data["kind"] == "approval" and (
            call := self._calls.get((event.iteration, call_id))
        ):
            call.approval = f"{APPROVAL}{asked}"
        if event.data["kind"] == "question":
            yield from self._whole_text(f"{QUESTION}{asked}", question_text(event.data))
        else:
            index = self._next_index()
            item = {
                "id": f"{APPROVAL}{asked}",
                "type": "mcp_approval_request",
                "server_label": self.body["model"],
                "name": event.data["name"],
                "arguments": json.dumps(event.data["arguments"], ensure_ascii=False),
            }
            yield self._next("response.output_item.added", output_index=index, item=item)
            yield self._add(index, item)
        if self.requests <= self._id.part:
            # The response begins after this request, which belongs to an earlier one of the run.
            self.body["output"], self._index, self._usage = [], 0, Usage()
        elif not self._id.in_background:
            yield from self._close(event, "completed")

    def _ask_others(self, vote: RunEvent) -> Iterator[Frame]:
        """Report an approval, and ask the next person who must agree."""
        who, votes, count = vote.data["vote"]["name"], vote.data["votes"], vote.data["count"]
        said = f"Approved by {who}: {votes} of {count}. Another person has to approve the same."
        yield from self._whole_text(f"msg_{self._mark}_{vote.seq}", said)
        yield from self._ask(
            self._asked[vote.data["digest"]].model_copy(update={"time": vote.time})
        )

    def _end(self, event: RunEvent) -> Iterator[Frame]:
        yield from self._settle(None)
        yield from self._reply.void()
        if event.type == "done" and event.data["response"] not in ("", self._answer):
            yield from self._whole_text(f"msg_{self._mark}_{event.seq}", event.data["response"])
        if event.type == "failed":
            self.body["error"] = {"code": event.data["kind"], "message": event.data["message"]}
        yield from self._close(event, {"done": "completed"}.get(event.type, event.type))

    def _close(self, event: RunEvent, status: str) -> Iterator[Frame]:
        self.body |= {
            "status": status,
            "completed_at": int(event.time) or None,
            "usage": usage_body(self._usage),
        }
        self.is_over = True
        if status == "completed" and (why := event.data.get("cutShort")):
            reason = "content_filter" if why == "content_filter" else "max_output_tokens"
            status, self.body["incomplete_details"] = "incomplete", {"reason": reason}
            self.body["status"] = status
        type = f"response.{status}" if status in ("completed", "incomplete") else "response.failed"
        yield self._next(type, response=dict(self.body))


def _answer_in(messages: list[Message]) -> str | None:
    """Return the text of the answer at the end of a conversation; None if it ends otherwise."""
    last = messages[-1] if messages else None
    return last.text if last and last.role == "assistant" and not last.tool_calls else None


def question_text(asked: JsonView) -> str:
    """Return a question with its choices."""
    question = str(asked["arguments"].get("question", ""))
    return "\n".join([question, *(f"- {each}" for each in asked["choices"])])
