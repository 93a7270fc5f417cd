"""Decisions in messages to an A2A task: each message decides once, even if it is sent again."""

from __future__ import annotations

from collections.abc import Sequence

from a2a.helpers import get_data_parts, get_message_text
from a2a.types import Message
from a2a.utils.errors import InvalidParamsError

from ..client.updates import send_decision
from ..errors import ApprovalError
from ..history.chain import Chain
from ..json_types import JsonObject
from ..tool_calls import PendingApproval
from .gateway import FoundRun, Gateway, digest_of
from .identity import Identity

_WORDS = {"approve": True, "deny": False}


async def decide(
    gateway: Gateway,
    identity: Identity,
    found: FoundRun,
    message: Message,
    waiting: Sequence[PendingApproval],
) -> None:
    """Pass a decision on: about the first waiting call, unless the message's data names another
    one.

    Raises `InvalidParamsError` for a message without a decision, and the errors of the decision.
    """
    given = _data_of(message)
    pending = next(
        (each for each in waiting if given and each.digest == given.get("digest")), waiting[0]
    )
    decision = {
        "call_id": pending.call_id,
        "digest": pending.digest,
        **_decision_in(message, pending),
    }
    chain = Chain(gateway.client, pending.run_id) if pending.run_id else _chain_of(gateway, found)
    await _send(gateway, identity, found, message, chain, decision)


async def was_decision(
    gateway: Gateway, identity: Identity, found: FoundRun, message: Message
) -> bool:
    """Return whether a message that arrives while nothing waits has already decided something."""
    if _data_of(message) is None and _approval_in(message) is None:
        return False
    try:
        await _send(
            gateway,
            identity,
            found,
            message,
            _chain_of(gateway, found),
            {"call_id": "", "approved": True},
        )
    except ApprovalError:
        return False
    return True


def _chain_of(gateway: Gateway, found: FoundRun) -> Chain:
    return Chain(gateway.client, found.id, found.first_run_id)


async def _send(
    gateway: Gateway,
    identity: Identity,
    found: FoundRun,
    message: Message,
    chain: Chain,
    decision: JsonObject,
) -> None:
    """Send a decision with an id derived from the message's id, so that the run accepts it once."""
    id = digest_of(
        [found.id, found.first_run_id, identity.tenant, identity.name, message.message_id]
    )
    await send_decision(
        chain, {**decision, "by": identity.name, "id": id}, gateway.voucher(identity)
    )


def _data_of(message: Message) -> JsonObject | None:
    """Return the decision in the message's data; None if there is none."""
    found = (
        each
        for each in get_data_parts(message.parts)
        if isinstance(each, dict) and "approved" in each
    )
    return next(found, None)


def _approval_in(message: Message) -> bool | None:
    word = get_message_text(message).strip().partition(" ")[0]
    return _WORDS.get(word.lower().rstrip(".,:"))


def _decision_in(message: Message, pending: PendingApproval) -> JsonObject:
    """Return the message's decision about a call. Raises `InvalidParamsError` if it is not a
    decision.
    """
    text = get_message_text(message)
    if pending.question:
        return {"approved": True, "answer": text}
    given = _data_of(message)
    approved = given["approved"] if given else _approval_in(message)
    digest = {"digest": str(given["digest"])} if given and given.get("digest") else {}
    if approved is True:
        return {"approved": True, **digest}
    if approved is False:
        why = str(given.get("reason") or "") if given else text.strip().partition(" ")[2]
        return {"approved": False, "reason": why.strip() or "denied", **digest}
    raise InvalidParamsError(
        "the task waits for an approval: expected `approve`, or `deny` and why"
    )
