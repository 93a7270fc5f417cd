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
from .responses_wire import ResponseId, ResponseRequest, said_in


class Creation:
    """One request."""

    def __init__(
        self, gateway: Gateway, identity: Identity, request: Request, asked: ResponseRequest
    ) -> None:
        """Read the request. Raises `HttpProblem` for an invalid one."""
        if asked.session and asked.previous_response_id:
            raise BadParameter(
                "previous_response_id", "expected conversation or previous_response_id, not both"
            )
        self._gateway = gateway
        self._identity = identity
        self._request = request
        self._asked = asked
        self._said = said_in(asked)
        self._asking = AgentRequest(gateway, identity, gateway.offer(asked.model), request)

    async def answer(self) -> Response:
        """Return the answer. Raises as a start and a decision do."""
        id = await self._begin()
        shown = await ShownResponse.of_run(
            self._gateway, await self._gateway.run(self._identity, id.run), id
        )
        if self._asked.stream:
            return self._asking.stream(shown.stream(self._request))
        return await self._asking.whole(self._whole(shown))

    async def _whole(self, shown: ShownResponse) -> Response:
        body = shown.queued() if self._asked.background else await shown.whole()
        return JSONResponse(body, headers=shown.headers)

    def _id(self, run: RunHandle | FoundRun, part: int = 0) -> ResponseId:
        return ResponseId(run.id, part, bool(self._asked.background))

    async def _begin(self) -> ResponseId:
        """Carry out the request, and return its response."""
        if self._said.decisions:
            return await self._decide()
        found = await self._previous_run()
        waits = found is not None and session_of(found.id) and self._said.text_and_parts[1]
        if found is not None and not found.has_ended and not waits:
            return await self._go_on(found)
        if not self._said.words:
            raise BadParameter("input", "input: expected a message of the role `user`")
        if self._asked.session:
            session = await self._gateway.session(
                self._identity, self._asked.session, self._asking.offer
            )
            turn = (await session.status()).turn
            return self._id(await self._say(session, turn - self._asking.is_retry))
        if found is not None and (session_id := await self._session_after(found)):
            session = await self._gateway.session(self._identity, session_id, self._asking.offer)
            return self._id(await self._say(session, found.id))
        return self._id(await self._start(found))

    async def _previous_run(self) -> FoundRun | None:
        """Return the run that the request continues, if it names one; for a conversation, the
        current run.
        """
        if self._asked.session:
            session = await self._gateway.session(
                self._identity, self._asked.session, self._asking.offer
            )
            id = (await session.status()).run_id
        elif self._asked.previous_response_id:
            id = ResponseId.read(self._asked.previous_response_id).run
        elif self._said.run:
            id = self._said.run
        else:
            id = self._said.question.run if self._said.question else None
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
        is_last = status.turn == number or (self._asking.is_retry and status.turn == number + 1)
        return "" if not is_last or status.is_closing or status.status == "ended" else id

    async def _say(self, session: Session, place: object) -> RunHandle:
        """Send the new messages to a session; equal requests at the same `place` count once."""
        request = (
            [self._asking.key] if self._asking.key else [self._asked.model_dump(mode="json"), place]
        )
        message = digest_of(["responses", *request])
        return await self._asking.send(session, *self._said.text_and_parts, message)

    async def _start(self, found: FoundRun | None) -> RunHandle:
        """Start a run with the previous run's conversation, or with that of the request."""
        asking, said, asked = self._asking, self._said, self._asked
        users = [each for each in said.messages if each.role == "user"]
        if (
            found is None
            and asking.session
            and (run := await asking.say_in_session(asking.session, users))
        ):
            return run
        before = asking.instructions if found is None else await _conversation_of(found)
        about: JsonObject = {"model": asking.offer.name}
        about |= {"metadata": asked.metadata} if asked.metadata else {}
        about |= {"previous_response_id": asked.previous_response_id} if found is not None else {}
        return await asking.start_run(
            [*before, *said.messages],
            ["responses", asked.model_dump(mode="json")],
            RunOptions(stream=bool(asked.stream or asked.background)),
            about={ABOUT: about},
        )

    async def _decide(self) -> ResponseId:
        """Pass the decisions on, and return the response after the last of them.

        A client that sends its history repeats earlier decisions, which count already.
        """
        decisions, by = self._said.decisions, self._identity.name
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
        if self._said.words and not found.has_ended:
            await self._steer(found)
        return self._id(found, max(part, await self._part_after(found, decisions[-1].call.digest)))

    async def _part_after(self, found: FoundRun, digest: str) -> int:
        """Return the part that follows others' decisions about that call; 0 if there are none."""
        asked = [each for each in await found.handle.events() if each.type in ASKING_EVENTS]
        votes = [
            place
            for place, each in enumerate(asked, 1)
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
        if not (text := self._said.text):
            return self._id(found, waiting)
        questions = (
            place for place, each in enumerate(requests) if each and each.data["kind"] == "question"
        )
        if (place := next(questions, None)) is None:
            await self._steer(found)
            return self._id(found, waiting)
        asked = requests[place]
        assert asked is not None
        await found.handle.answer(
            asked.call_id or "", text, digest=asked.data["digest"], by=self._identity.name
        )
        return self._id(found, place + 1)

    async def _steer(self, found: FoundRun) -> None:
        """Send the new messages to the run, unless the run has already read them from an earlier
        request.
        """
        text = self._said.text
        if self._asking.is_retry:
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
