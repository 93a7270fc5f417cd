"""Handles a request for an OpenAI response: it starts a run, continues one, or decides, and never
twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..client import RunHandle, Session
from ..errors import ApprovalError, RunError
from ..events import ASKING_EVENTS, RunEvent
from ..json_types import JsonObject
from ..messages import Message
from ..options import RunOptions
from .gateway import FoundRun, Gateway, digest_of, session_of
from .identity import Identity
from .openai_start import AgentRequest
from .problems import BadParameter
from .responses_shown import ABOUT, ShownResponse
from .responses_wire import ResponseId, ResponseRequest, response_input


class Creation:
    """One request."""

    def __init__(
        self, gateway: Gateway, identity: Identity, request: Request, body: ResponseRequest
    ) -> None:
        """Read the request. Raises `HttpProblem` for an invalid one."""
        if body.session and body.previous_response_id:
            raise BadParameter(
                "previous_response_id", "expected conversation or previous_response_id, not both"
            )
        self._gateway = gateway
        self._identity = identity
        self._request = request
        self._body = body
        self._input = response_input(body)
        self._agent_request = AgentRequest(gateway, identity, gateway.offer(body.model), request)

    async def answer(self) -> Response:
        """Return the answer. Raises as a start and a decision do."""
        id = await self._carry_out()
        shown = await ShownResponse.of_run(
            self._gateway, await self._gateway.run(self._identity, id.run), id
        )
        if self._body.stream:
            return self._agent_request.stream(shown.stream(self._request))
        return await self._agent_request.whole(self._whole(shown))

    async def _whole(self, shown: ShownResponse) -> Response:
        body = shown.queued() if self._body.background else await shown.whole()
        return JSONResponse(body, headers=shown.headers)

    def _id(self, run: RunHandle | FoundRun, part: int = 0) -> ResponseId:
        return ResponseId(run.id, part, bool(self._body.background))

    async def _carry_out(self) -> ResponseId:
        """Carry out the request, and return its response."""
        if self._input.decisions:
            return await self._decide()
        found = await self._previous_run()
        waits = found is not None and session_of(found.id) and self._input.text_and_parts[1]
        if found is not None and not found.has_ended and not waits:
            return await self._go_on(found)
        if not self._input.new_messages:
            raise BadParameter("input", "input: expected a message of the role `user`")
        if self._body.session:
            session = await self._session(self._body.session)
            before = (await session.status()).turn - self._agent_request.is_retry
            return self._id(await self._send_to_session(session, before))
        if found is not None and (session_id := await self._session_after(found)):
            session = await self._session(session_id)
            return self._id(await self._send_to_session(session, found.id))
        return self._id(await self._start(found))

    async def _session(self, id: str) -> Session:
        return await self._gateway.session(self._identity, id, self._agent_request.offer)

    async def _previous_run(self) -> FoundRun | None:
        """Return the run that the request continues, if it names one; for a conversation, the
        current run.
        """
        if self._body.session:
            id = (await (await self._session(self._body.session)).status()).run_id
        elif self._body.previous_response_id:
            id = ResponseId.read(self._body.previous_response_id).run
        elif self._input.run:
            id = self._input.run
        else:
            id = self._input.question.run if self._input.question else None
        return await self._gateway.run(self._identity, id) if id else None

    async def _session_after(self, found: FoundRun) -> str:
        """Return the session of which the run is the last turn; "" for any other run: a new run
        continues its conversation.

        On a retry, the last turn may already be the answer to the first attempt.
        """
        if not (id := session_of(found.id)):
            return ""
        number = int(found.id.rpartition("/")[2])
        status = await (await self._gateway.session(self._identity, id)).status()
        is_last = status.turn == number or (
            self._agent_request.is_retry and status.turn == number + 1
        )
        return "" if not is_last or status.is_closing or status.status == "ended" else id

    async def _send_to_session(self, session: Session, after: object) -> RunHandle:
        """Send the new messages to a session, once for a repeated request.

        A request without a key is a repetition of an equal one sent `after` the same turn.
        """
        request = (
            [self._agent_request.key]
            if self._agent_request.key
            else [self._body.model_dump(mode="json"), after]
        )
        message = digest_of(["responses", *request])
        return await self._agent_request.send(session, *self._input.text_and_parts, message)

    async def _start(self, found: FoundRun | None) -> RunHandle:
        """Start a run with the previous run's conversation, or with that of the request."""
        agent_request, input, body = self._agent_request, self._input, self._body
        users = [each for each in input.messages if each.role == "user"]
        if (
            found is None
            and agent_request.session
            and (run := await agent_request.say_in_session(agent_request.session, users))
        ):
            return run
        before = agent_request.instructions if found is None else await _conversation_of(found)
        about: JsonObject = {"model": agent_request.offer.name}
        about |= {"metadata": body.metadata} if body.metadata else {}
        about |= {"previous_response_id": body.previous_response_id} if found is not None else {}
        return await agent_request.start_run(
            [*before, *input.messages],
            ["responses", body.model_dump(mode="json")],
            RunOptions(stream=bool(body.stream or body.background)),
            about={ABOUT: about},
        )

    async def _decide(self) -> ResponseId:
        """Pass the decisions on, and return the response after the last of them.

        A client that sends its history repeats earlier decisions, which count already.
        """
        decisions, by = self._input.decisions, self._identity.name
        run, part = decisions[-1].call.run, max(each.call.part for each in decisions)
        if any(each.call.run != run for each in decisions):
            raise BadParameter(
                "input", "input: the calls that are decided about belong to different runs"
            )
        found = await self._gateway.run(self._identity, run)
        for each in decisions if not found.has_ended else ():
            try:
                if each.approved:
                    await found.handle.approve(each.call.call, digest=each.call.digest, by=by)
                else:
                    await found.handle.deny(
                        each.call.call, each.reason, digest=each.call.digest, by=by
                    )
            except ApprovalError:
                if each.call.part == part:
                    raise
        if self._input.new_messages and not found.has_ended:
            await self._steer(found)
        return self._id(found, max(part, await self._part_after(found, decisions[-1].call.digest)))

    async def _part_after(self, found: FoundRun, digest: str) -> int:
        """Return the part that follows others' decisions about that call; 0 if there are none."""
        requests = [each for each in await found.handle.events() if each.type in ASKING_EVENTS]
        votes = [
            place
            for place, each in enumerate(requests, 1)
            if each.type == "permission_vote"
            and each.data["digest"] == digest
            and each.data["vote"]["name"] != self._identity.name
        ]
        return max(votes, default=0)

    async def _go_on(self, found: FoundRun) -> ResponseId:
        """Answer the run's open question, or steer the run; return its current part.

        If the run waits for a decision, ask for it again: no new run replaces it.
        """
        requests = open_requests(await found.handle.events())
        waiting = next(
            (place for place, each in enumerate(requests) if each is not None), len(requests)
        )
        if not (text := self._input.text):
            return self._id(found, waiting)
        questions = (
            place for place, each in enumerate(requests) if each and each.data["kind"] == "question"
        )
        if (place := next(questions, None)) is None:
            await self._steer(found)
            return self._id(found, waiting)
        question = requests[place]
        assert question is not None
        await found.handle.answer(
            question.call_id or "", text, digest=question.data["digest"], by=self._identity.name
        )
        return self._id(found, place + 1)

    async def _steer(self, found: FoundRun) -> None:
        """Send the new messages to the run, unless the run has already read them from an earlier
        request.
        """
        text = self._input.text
        if self._agent_request.is_retry:
            answers = [each.data.get("answer") for each in await found.handle.events()]
            if text in [
                *answers,
                *(each.text for each in await found.handle.messages() if each.role == "user"),
            ]:
                return
        await found.handle.steer(text, by=self._identity.name)


def open_requests(events: Sequence[RunEvent]) -> list[RunEvent | None]:
    """Return the events by which a run asked a person, in order; None for those already decided.

    If several people must agree, the run asks again after each of them.
    """
    requests: list[RunEvent | None] = []
    for event in events:
        if event.type == "permission_requested":
            requests.append(event)
        elif event.type in ("permission_completed", "permission_vote"):
            about = next(
                (each for each in requests if each and _call_of(each) == _call_of(event)), None
            )
            requests = [None if each is about else each for each in requests]
            requests += [about] if event.type == "permission_vote" else []
    return requests


def _call_of(event: RunEvent) -> tuple[int, str | None, str]:
    return event.iteration, event.call_id, event.data["digest"]


async def _conversation_of(found: FoundRun) -> list[Message]:
    """Return the final conversation of a run."""
    try:
        return (await found.handle.result()).messages
    except RunError as error:
        return list(error.messages or [])
