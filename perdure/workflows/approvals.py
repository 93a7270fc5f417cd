"""The tool calls that wait for a person, and the decisions about them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from ..errors import RunError
from ..guardrails import GuardrailResult
from ..loop.effects import Cancelled
from ..loop.verdicts import checked_verdict
from ..protocol.names import REFUSED
from ..protocol.run import CallApproval, DecidedCall
from ..protocol.signatures import SignedIdentity
from ..text import one_line
from ..tool_calls import (
    Approval,
    Approver,
    Asked,
    Decided,
    PendingApproval,
    ToolRequest,
    ToolSpec,
    Vote,
    misfit,
)
from .policies import describe_failure
from .received import LARGE_BYTES, Door, require_room

REMEMBERED = 100
"""The number of past decisions by which a repeated one is recognized."""

Judge = Callable[[ToolRequest], Awaitable[GuardrailResult]]


DECISIONS = Door(CallApproval, REFUSED, "call_id and approved")
refusal = DECISIONS.refusal


class OpenApproval:
    """A tool call that waits for a person's approval, and the approval once it has come."""

    def __init__(
        self, request: ToolRequest, spec: ToolSpec, asked: Asked, judge: Judge | None
    ) -> None:
        question = asked.question
        self.pending = PendingApproval(
            call_id=request.call_id,
            kind="question" if question else "approval",
            name=request.name,
            description=spec.description,
            parameters=spec.parameters,
            arguments=request.arguments,
            digest=request.digest,
            since=workflow.time(),
            deadline=asked.deadline,
            reason=asked.reason,
            iteration=request.iteration,
            approvers=spec.approvers,
            **(dict(question) if question else {}),
        )
        self._asked = asked
        self.approval: Approval | None = None
        self.on_vote: Callable[[Vote, int], None] = lambda vote, votes: None
        """Called when one of several approvers approves, with the number that have approved the
        same so far."""
        self._marks: dict[str, str] = {}
        """The mark of each approver's approval (`Approval.mark`), by name."""
        self._ids: set[str] = set()
        """Ids of the accepted decisions where several must agree: a repeated one changes
        nothing."""
        self.is_closed = False
        self.deciding = asyncio.Lock()
        self._request = request
        self._judge = judge

    def require_vouch(self, decision: CallApproval) -> None:
        """Raise a refusal where a decision needs a gateway's signature and has none."""
        policy = self.pending.approvers
        if policy is None or not policy.needs_vouch:
            return
        if decision.vouch is None:
            raise refusal(
                "unvouched",
                f"about tool {self.pending.name!r} may decide: {policy.in_words()}. The sender of "
                "this decision could not be verified: decide through a gateway that has "
                "PERDURE_VOUCH_KEY (`perdure docs approvals`)",
            )
        if decision.digest is None:
            raise refusal(
                "stale", f"expected the digest of the call, which is {self.pending.digest!r}"
            )

    def has_taken(self, id: str) -> bool:
        """Return whether the decision of that id counts already."""
        return id in self._ids

    def count(self, decision: CallApproval, judged: CallApproval) -> bool:
        """Count an accepted decision, and return whether the decisions so far settle the call."""
        vouch, policy = decision.vouch, self.pending.approvers
        if vouch is None:
            self.approval = judged
            return True
        if policy is None or policy.count == 1 or not decision.approved:
            self.approval = _settled_decision(judged, [approver_of(vouch)])
            return True
        self._ids.add(decision.id)
        if self._marks.get(vouch.name) == decision.mark:
            return False
        self._marks[vouch.name] = decision.mark
        vote = Vote(
            **dict(approver_of(vouch)), arguments=decision.arguments, answer=decision.answer
        )
        others = [each for each in self.pending.votes if each.name != vouch.name]
        votes = [*others, vote]
        agreeing = [each for each in votes if self._marks[each.name] == decision.mark]
        if len(agreeing) >= policy.count:
            self.approval = _settled_decision(judged, agreeing)
            return True
        self.pending = self.pending.model_copy(update={"votes": votes})
        self.on_vote(vote, len(agreeing))
        return False

    def require_fitting(self, decision: CallApproval) -> None:
        """Check that the decision fits the question, and edited arguments against the tool's
        schema.

        Raises a refusal that names the mismatch.
        """
        if text := misfit(self._asked.question, decision):
            kind = (
                "answer"
                if self._asked.question and decision.answer is not None
                else self.pending.kind
            )
            raise refusal(kind, f"tool call {_id_of(decision)}: {text}")
        schema = self.pending.parameters
        if not decision.approved or decision.arguments is None or schema is None:
            return
        # Imported where it is used: readers of runs import this module too, and rarely execute
        # this.
        from ..tools.validation import edited_problems

        if problems := edited_problems(schema, decision.arguments):
            raise refusal(
                "arguments",
                f"the edited arguments do not fit tool {self.pending.name!r}: "
                f"{'; '.join(problems)}",
            )

    async def judge(self, decision: CallApproval) -> CallApproval:
        """Ask the tool guardrail about edited arguments, and return the decision with its rewrite.

        Raises a refusal when it denies them.
        """
        if not decision.approved or decision.arguments is None or self._judge is None:
            return decision
        edited = self._request.model_copy(update={"arguments": decision.arguments})
        try:
            verdict = checked_verdict("tool", await self._judge(edited))
        except Cancelled:
            raise refusal("ended", "the run was cancelled") from None
        except (ActivityError, RunError) as error:
            text = str(error) if isinstance(error, RunError) else describe_failure(error)[1]
            raise refusal("guardrail", f"the tool guardrail can't be asked: {text}") from error
        if not verdict.allowed:
            raise refusal(
                "guardrail", f"the tool guardrail denies the edited arguments: {verdict.reason}"
            )
        return (
            decision
            if verdict.rewrite is None
            else decision.model_copy(update={"arguments": verdict.rewrite})
        )


def approver_of(vouch: SignedIdentity) -> Approver:
    """Return the approver of a decision with a valid signature."""
    return Approver(
        name=vouch.name,
        tenant=vouch.tenant,
        roles=vouch.roles,
        key_id=vouch.key_id,
        at=workflow.time(),
    )


def _settled_decision(judged: CallApproval, approvers: Sequence[Approver]) -> Decided:
    known = [
        Approver(**{name: getattr(each, name) for name in Approver.model_fields})
        for each in approvers
    ]
    return Decided(
        approved=judged.approved,
        reason=judged.reason,
        arguments=judged.arguments,
        by=", ".join(each.name for each in approvers),
        answer=judged.answer,
        approvers=known,
    )


class Approvals:
    """The open approvals of a link: the loop opens them, signals and updates decide them."""

    def __init__(self, decided: Sequence[DecidedCall] = (), *, max_updates: int) -> None:
        """Temporal accepts at most 2,000 updates per link, refused ones not counted.

        From `max_updates` on, the link ends as soon as it can and refuses repeated decisions as
        `repeated`. After nearly twice as many, all other decisions must come as signals.
        """
        self.updates = 0
        """The number of updates that this link has accepted."""
        self.decided = list(decided)
        self._max_updates = max_updates
        self._calls: list[OpenApproval] = []
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the workflow's thread when a call begins or stops waiting. It must not
        raise.
        """
        self._listeners.append(listener)

    @property
    def pending_approvals(self) -> list[PendingApproval]:
        """Calls that wait for a person's approval."""
        return [opened.pending for opened in self._undecided]

    @property
    def _undecided(self) -> list[OpenApproval]:
        return [opened for opened in self._calls if opened.approval is None]

    @property
    def are_many(self) -> bool:
        """Return whether this link has accepted enough decisions to continue as new."""
        return self.updates >= self._max_updates

    def require_acceptable(self, decision: CallApproval) -> OpenApproval | None:
        """Return the result of `find` for a decision that comes as an update.

        Raises a refusal like `find`, and when the link has no room for another update.
        """
        found = self.find(decision)
        if self.are_many and found is None:
            raise refusal(
                "repeated", f"the decision about tool call {_id_of(decision)} was accepted before"
            )
        if self.updates >= self._max_updates * 1.9:
            raise refusal(
                "full",
                f"this link has taken {self.updates:,} updates: send the decision as a signal",
            )
        if (size := len((decision.reason or "").encode(errors="replace"))) > LARGE_BYTES:
            raise refusal(
                "too_large",
                f"the reason takes {size:,} bytes: at most {LARGE_BYTES:,} are possible",
            )
        require_room(decision, [decision.arguments], 2, refusal)
        return found

    def open(
        self, request: ToolRequest, spec: ToolSpec, asked: Asked, judge: Judge | None
    ) -> OpenApproval:
        """Record that a tool call waits; `judge` is the tool guardrail, if any."""
        opened = OpenApproval(request, spec, asked, judge)
        self._calls.append(opened)
        self._notify()
        return opened

    def close(self, opened: OpenApproval) -> None:
        """Record that the call no longer waits."""
        opened.is_closed = True
        self._calls.remove(opened)
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    def expire(self, opened: OpenApproval, asked: Asked) -> CallApproval:
        """Return the denial of a call whose time to decide is over."""
        denial = CallApproval(call_id=opened.pending.call_id, **dict(asked.expiry))
        self._remember(denial, opened, "expired")
        return denial

    def find(self, decision: CallApproval) -> OpenApproval | None:
        """Return the call that the decision concerns; None for a repeated decision, which changes
        nothing.

        Raises a refusal for a call that does not wait, a stale digest, and edited arguments that do
        not fit.
        """
        if decision.id and self._has_taken(decision.id):
            return None
        waiting = [
            opened for opened in self._undecided if opened.pending.call_id == decision.call_id
        ]
        for opened in waiting:
            if decision.digest in (None, opened.pending.digest):
                opened.require_fitting(decision)
                opened.require_vouch(decision)
                return opened
        past = next((each for each in reversed(self.decided) if _is_about(each, decision)), None)
        if past and past.mark == decision.mark:
            return None
        raise self._no_such_call(decision, past, waiting)

    def _has_taken(self, id: str) -> bool:
        return any(past.id == id for past in self.decided) or any(
            each.has_taken(id) for each in self._undecided
        )

    async def decide(self, decision: CallApproval) -> None:
        """Accept a decision. Raises a refusal like `find`, and when the tool guardrail denies
        edited arguments.

        A refused decision changes nothing: the call still waits.
        """
        opened = self.find(decision)
        if opened is None:
            return
        async with opened.deciding:
            if opened.approval is not None:
                # Another decision was accepted while this one waited.
                self.find(decision.model_copy(update={"digest": opened.pending.digest}))
                return
            judged = await opened.judge(decision)
            if opened.is_closed:
                raise refusal("ended", f"tool call {_id_of(decision)} does not wait any longer")
            if opened.count(decision, judged):
                self._remember(decision, opened, "" if decision.answer is None else "answered")
            else:
                self._notify()

    def _remember(
        self, decision: CallApproval, opened: OpenApproval, word: Literal["", "answered", "expired"]
    ) -> None:
        is_vouched = isinstance(opened.approval, Decided)
        by = opened.approval.by if opened.approval and is_vouched else decision.by
        past = DecidedCall(
            call_id=decision.call_id,
            digest=opened.pending.digest,
            mark=decision.mark,
            id=decision.id,
            approved=decision.approved,
            by=by and one_line(by),
            is_vouched=is_vouched,
            word=word,
        )
        self.decided = [*self.decided, past][-REMEMBERED:]

    def _no_such_call(
        self, decision: CallApproval, past: DecidedCall | None, waiting: Sequence[OpenApproval]
    ) -> ApplicationError:
        if past and past.word == "expired":
            return refusal(
                "decided",
                f"tool call {_id_of(decision)} was denied already, because its deadline had passed",
            )
        if past:
            verdict = past.word or ("approved" if past.approved else "denied")
            by = f" by {past.by}{'' if past.is_vouched else ' (claimed)'}" if past.by else ""
            return refusal(
                "decided", f"tool call {_id_of(decision)} was {verdict}{by} already, in another way"
            )
        if waiting:
            now = waiting[0].pending
            return refusal(
                "stale",
                f"digest {one_line(str(decision.digest))!r} is stale: tool call {_id_of(decision)} "
                f"waits with the digest {now.digest!r}. Look at its present request, and decide "
                "again",
            )
        known = (
            ", ".join(repr(one_line(each.call_id)) for each in self.pending_approvals[:10])
            or "none"
        )
        return refusal(
            "unknown", f"no tool call {_id_of(decision)} waits for approval. Waiting: {known}"
        )


def _is_about(past: DecidedCall, decision: CallApproval) -> bool:
    return past.call_id == decision.call_id and decision.digest in (None, past.digest)


def _id_of(decision: CallApproval) -> str:
    return repr(one_line(decision.call_id))


@contextmanager
def dropped_if_refused(what: str) -> Iterator[None]:
    """Log the refusal of a signal, since a signal has no reply."""
    try:
        yield
    except ApplicationError as error:
        workflow.logger.warning("%s was dropped: %s", what, error.message)
