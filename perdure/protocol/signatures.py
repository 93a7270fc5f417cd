"""Signatures of a gateway: it identifies approvers and requesters with a key that the workers
share.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import Field

from ..errors import ConfigurationError
from ..keyring import MAKE_ONE, keys_in, written_keys
from ..messages import Exchanged

VARIABLE = "PERDURE_VOUCH_KEY"
"""The environment variable with the keys: `KEYID:BASE64KEY[,OLDID:…]`."""
FILE_VARIABLE = "PERDURE_VOUCH_KEY_FILE"
"""The environment variable with the path of a file that contains them."""
UNDECIDABLE = (
    "Calls {} can't be decided: this worker has no key to verify the signature of a gateway. Give "
    f"gateways and workers the same {VARIABLE} (`perdure docs approvals`)"
)
VALID_SECONDS = 300.0
"""The most seconds between a signature and its receipt."""


class SignedIdentity(Exchanged):
    """Identifies the approver of one decision, signed by a gateway."""

    name: str = Field(min_length=1)
    tenant: str | None = None
    """The person's tenant; None for a person who may reach all runs."""
    roles: list[str] = []
    at: float
    """When it was signed, in seconds since the epoch."""
    key_id: str
    signature: str

    @property
    def signed_values(self) -> list[Any]:
        """Return the signed values."""
        return [self.name, self.tenant, self.roles, self.at, self.key_id]


class Requesters(Exchanged):
    """Identifies the requesters of a run, or the senders of its messages: signed by a gateway, or
    by the calling run.
    """

    names: list[str]
    at: float
    """When it was signed, in seconds since the epoch."""
    key_id: str
    signature: str

    @property
    def size(self) -> int:
        """Return its approximate size in characters."""
        return sum(map(len, [*self.names, self.key_id, self.signature])) + 100

    @property
    def signed_values(self) -> list[Any]:
        """Return the signed values."""
        return [self.names, self.at, self.key_id]


class Request(Exchanged):
    """A request to a run or a session, as it was received."""

    by: Requesters
    place: str
    """The workflow id."""
    content: str
    """A digest of the request."""
    since: float
    """The signature must not be older than this, in seconds since the epoch, …"""
    until: float
    """… and not newer than this."""


MAX_REQUESTS = 200
"""The most requests of one run that are kept; with more, its requesters are unknown."""
MAX_REQUEST_CHARS = 64 * 1024
"""The limit of all their names and signatures: they travel from link to link, and anybody may send
some."""
Requests = list[Request] | None
"""None if a requester could not be verified."""


def with_request(known: Requests, request: Request | None) -> Requests:
    """Return the requests with one more; None for one that is unverified, a duplicate, or one too
    many.
    """
    if known is None or request is None or len(known) >= MAX_REQUESTS:
        return None
    if any(each.by.signature == request.by.signature for each in known):
        return None
    found = [*known, request]
    return found if sum(each.by.size for each in found) <= MAX_REQUEST_CHARS else None


@dataclass(frozen=True)
class VouchKeys:
    """The keys of this process: the first one signs, all verify."""

    keys: dict[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str, source: str = VARIABLE) -> VouchKeys:
        """Return the keys in `KEYID:BASE64KEY[,OLDID:BASE64KEY…]`; line breaks may replace commas,
        `#` begins a comment.

        Raises ConfigurationError, which never shows a key.
        """
        return cls(keys_in(text, source))

    def sign_decision(
        self, name: str, tenant: str | None, roles: Collection[str], subject: Sequence[Any]
    ) -> SignedIdentity:
        """Return this person's identity, signed now for a decision; `subject` is its call and
        content. There must be a key.
        """
        vouch = SignedIdentity(
            name=name,
            tenant=tenant,
            roles=sorted(roles),
            at=time.time(),
            key_id=self._first,
            signature="",
        )
        return vouch.model_copy(update={"signature": self._signature("decision", vouch, subject)})

    def sign_request(
        self, names: Iterable[str], place: str, content: str, at: float | None = None
    ) -> Requesters:
        """Return these requesters, signed for a request to the workflow `place` at that time, by
        default now; `content` is `content_of` the request. There must be a key.
        """
        now = time.time() if at is None else at
        requesters = Requesters(names=sorted(names), at=now, key_id=self._first, signature="")
        return requesters.model_copy(
            update={"signature": self._signature("request", requesters, [place, content])}
        )

    def fault_in(self, vouch: SignedIdentity, subject: Sequence[Any], now: float) -> str | None:
        """Return why the signature of a decision is invalid, and the remedy; None if it is
        valid.
        """
        if vouch.key_id not in self.keys:
            known = ", ".join(self.keys) or "none"
            return (
                f"it is signed with the key {vouch.key_id[:64]!r}, and this worker's keys are "
                f"{known}: give gateways and workers the same {VARIABLE}"
            )
        if not self._holds("decision", vouch, subject):
            return "its signature does not fit this decision about this call of this run"
        if abs(now - vouch.at) > VALID_SECONDS:
            return (
                f"it was signed {abs(now - vouch.at):,.0f} s "
                f"{'ago' if vouch.at < now else 'ahead'}: decide again"
            )
        return None

    def requesters(self, requests: Requests) -> set[str] | None:
        """Return the names of all requesters; None if any could not be verified."""
        if requests is None:
            return None
        for each in requests:
            is_timely = each.since <= each.by.at <= each.until
            if not is_timely or not self._holds("request", each.by, [each.place, each.content]):
                return None
        return {name for each in requests for name in each.by.names}

    @property
    def _first(self) -> str:
        return next(iter(self.keys))

    def _holds(
        self, purpose: str, said: SignedIdentity | Requesters, subject: Sequence[Any]
    ) -> bool:
        if said.key_id not in self.keys:
            return False
        given = said.signature.encode(errors="replace")
        return hmac.compare_digest(self._signature(purpose, said, subject).encode(), given)

    def _signature(
        self, purpose: str, said: SignedIdentity | Requesters, subject: Sequence[Any]
    ) -> str:
        text = json.dumps(["perdure", 1, purpose, said.signed_values, subject], sort_keys=True)
        return hmac.new(self.keys[said.key_id], text.encode(), hashlib.sha256).hexdigest()


NO_KEYS = VouchKeys()


def vouch_keys() -> VouchKeys:
    """Return the keys in this process's environment; `NO_KEYS` if there are none.

    Raises ConfigurationError for anything but usable keys.
    """
    found = written_keys(VARIABLE)
    return _parse(*found) if found else NO_KEYS


def _require_keys() -> VouchKeys:
    found = vouch_keys()
    if not found.keys:
        raise ConfigurationError(
            f"a Voucher signs with a key: expected one in {VARIABLE} or {FILE_VARIABLE}; {MAKE_ONE}"
        )
    return found


@lru_cache(maxsize=4)
def _parse(text: str, source: str) -> VouchKeys:
    return VouchKeys.parse(text, source)


@dataclass(frozen=True)
class Voucher:
    """Signs requests and decisions for one person, whom the caller has authenticated.

    `start_run`, `get_run` and `session` take one. The keys are those of the environment
    (`PERDURE_VOUCH_KEY`), which the workers must have, too. Raises ConfigurationError where the
    environment has none.
    """

    name: str
    tenant: str | None = None
    """The person's tenant; None for a person who may reach all runs."""
    roles: Collection[str] = ()
    keys: VouchKeys = field(default_factory=lambda: _require_keys(), repr=False)
    """At least one key."""

    def decision(self, subject: Sequence[Any]) -> SignedIdentity:
        """Return the person's identity, signed for a decision; `subject` is the decision's call and
        content.
        """
        return self.keys.sign_decision(self.name, self.tenant, self.roles, subject)

    def request(self, place: str, content: str) -> Requesters:
        """Return the person as a requester, signed for a request to the workflow `place`; `content`
        is a digest of the request.
        """
        return self.keys.sign_request([self.name], place, content)


def content_of(*parts: Any) -> str:
    """Return a digest of a request, equal for equal JSON values."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
