"""Checks by a gateway's signatures who may decide about a call and who requested a run's work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from temporalio import workflow

from ..conversation import ConversationRef
from ..errors import ConfigurationError
from ..event_data import EventType, LoggedData, PermissionVoteData
from ..protocol.run import CallApproval, RunInput
from ..protocol.search_attributes import TENANT
from ..protocol.session import SessionInput, SessionMessage
from ..protocol.signatures import (
    NO_KEYS,
    VALID_SECONDS,
    VARIABLE,
    Request,
    Requesters,
    Requests,
    SignedIdentity,
    VouchKeys,
    content_of,
    vouch_keys,
)
from ..text import one_line
from ..tool_calls import Vote
from .approvals import OpenApproval, refusal


def require_entitled(
    decision: CallApproval, opened: OpenApproval | None, requests: Requests
) -> None:
    """Raise a refusal for an approver who is not entitled, and for an invalid signature.

    The answer depends on this worker's keys and on the time, so callers record it. `opened` is None
    for a decision that changes nothing.
    """
    vouch = decision.vouch
    if vouch is None:
        return
    run = workflow.info().first_execution_run_id
    if fault := _keys().fault_in(vouch, decision.subject(run), workflow.time()):
        raise refusal(
            "vouch", f"the decision of {one_line(vouch.name)!r} has no valid signature: {fault}"
        )
    if opened is not None:
        _require_tenant(vouch)
        _require_role(vouch, opened)
        _require_other(vouch, opened, requests)


def _keys() -> VouchKeys:
    try:
        return vouch_keys()
    except ConfigurationError as error:
        raise refusal("vouch", f"this worker can't verify who decides: {error}") from error


def _require_tenant(vouch: SignedIdentity) -> None:
    info = workflow.info()
    tenant = info.typed_search_attributes.get(TENANT) or info.priority.fairness_key
    if vouch.tenant is not None and vouch.tenant != tenant:
        raise refusal("not_entitled", f"{_name_of(vouch)} is of another tenant than the run")


def _require_role(vouch: SignedIdentity, opened: OpenApproval) -> None:
    policy = opened.pending.approvers
    if policy is None or not policy.by:
        return
    if not {*policy.by} & {*vouch.roles}:
        has = ", ".join(map(one_line, vouch.roles[:10])) or "none"
        raise refusal(
            "not_entitled",
            f"{_name_of(vouch)} may not decide about tool {opened.pending.name!r}: expected one of "
            f"the roles {', '.join(map(one_line, policy.by))}, and the gateway knows of {has}",
        )


def _require_other(vouch: SignedIdentity, opened: OpenApproval, requests: Requests) -> None:
    policy = opened.pending.approvers
    if policy is None or not policy.not_requester:
        return
    names = _keys().requesters(requests)
    if names is None:
        raise refusal(
            "not_entitled",
            f"no decision about tool {opened.pending.name!r} is possible: the requesters of this "
            "run could not be verified, and the approver must not be one of them (notRequester)",
        )
    if vouch.name in names:
        raise refusal(
            "not_entitled",
            f"{_name_of(vouch)} is a requester of this run: somebody else decides about tool "
            f"{opened.pending.name!r} (notRequester)",
        )


def _name_of(vouch: SignedIdentity) -> str:
    return repr(one_line(vouch.name))


Emit = Callable[[EventType, LoggedData], None]


def report_votes(opened: OpenApproval, emit: Emit) -> None:
    """Emit an event for each vote about a call that several people must approve."""
    pending, policy = opened.pending, opened.pending.approvers
    assert policy is not None
    count = policy.count

    def tell(vote: Vote, votes: int) -> None:
        said = vote.model_dump(mode="json")
        data = PermissionVoteData(
            name=pending.name, vote=said, votes=votes, count=count, digest=pending.digest
        )
        emit("permission_vote", data)

    opened.on_vote = tell


def initial_requests(input: RunInput | SessionInput) -> Requests:
    """Return the request that a link of a run or a session begins with; None where the requester is
    unknown.

    A link signs the request for the next link of the same chain. Without the signature, anybody who
    may start workflows could start one with a forged carried state.
    """
    if input.requested_by is None:
        return None
    info = workflow.info()
    content = link_content() if input.carried else input.content
    return [
        _request(
            input.requested_by, content, info.workflow_start_time.timestamp(), info.workflow_id
        )
    ]


def link_content() -> str:
    """Return the content that a link signs for the next one: a digest of their chain."""
    return content_of("link", workflow.info().first_execution_run_id)


def initial_requesters(input: SessionInput) -> list[str] | None:
    """Return the requesters of the session and of its earlier links; None where their signature is
    invalid.
    """
    requests = initial_requests(input)
    names = None if requests is None else _own_keys().requesters(requests)
    return None if names is None else sorted(names)


def request_received(by: Requesters | None, content: str) -> Request | None:
    """Return the request that reached this workflow now; None where no signature vouches for its
    sender.
    """
    return (
        None if by is None else _request(by, content, workflow.time(), workflow.info().workflow_id)
    )


def _request(by: Requesters, content: str, at: float, place: str) -> Request:
    known = Requesters(
        **{name: getattr(by, name) for name in Requesters.model_fields}
    )  # Drops foreign fields.
    return Request(
        by=known, place=place, content=content, since=at - VALID_SECONDS, until=at + VALID_SECONDS
    )


def signature_fault(message: SessionMessage, by: Requesters) -> str | None:
    """Return the fault of a session message's signature, and the remedy; None for a valid one.

    The answer depends on this worker's keys and on the time, so callers record it.
    """
    info = workflow.info()
    request = _request(
        by, message.content(info.first_execution_run_id), workflow.time(), info.workflow_id
    )
    is_signed_setup = message.setup is None or message.setup.digest == message.setup_digest
    if is_signed_setup and _own_keys().requesters([request]) is not None:
        return None
    return (
        "the message is signed, and its signature is of another message, setup, session or time, "
        "or by a key that this worker lacks: send it again, and give gateways and workers the same "
        f"{VARIABLE}"
    )


def part_content(turn: int, part: ConversationRef, handed_to: str) -> str:
    """Return the content that a turn signs when it hands messages over to its session; a digest
    represents them.
    """
    return content_of("hand_over", turn, part.base, part.version, part.digest, handed_to)


def handed_over_by(
    by: Requesters | None, turn: int, part: ConversationRef, handed_to: str
) -> set[str] | None:
    """Return the requesters of a turn's additions to this session; None where they are unknown.

    The part fits only this session's conversation, so it may arrive late, after a worker's outage.
    """
    if by is None:
        return None
    content = part_content(turn, part, handed_to)
    return _own_keys().requesters([_request(by, content, by.at, workflow.info().workflow_id)])


def passed_on(requests: Requests, place: str, content: str) -> Requesters | None:
    """Return the requesters of a run that this one calls, signed with this worker's key; None where
    they are unknown.

    The signature is part of the sent value and decides nothing here: a worker that replays the
    history with another key takes the same path.
    """
    if requests is None:
        return None
    names = _own_keys().requesters(requests)
    return signed_requesters(sorted(names), place, content) if names else None


def signed_requesters(names: Sequence[str], place: str, content: str) -> Requesters | None:
    """Return these requesters of another workflow, signed with this worker's key; None where it has
    none.
    """
    keys = _own_keys()
    return keys.sign_request(names, place, content, workflow.time()) if keys.keys else None


def _own_keys() -> VouchKeys:
    try:
        return vouch_keys()
    except ConfigurationError:
        return NO_KEYS
