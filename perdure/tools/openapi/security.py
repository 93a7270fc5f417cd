"""The keys that a call is sent with: from the tool's connection, in the way that the specification says."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...agent import Connection
from .document import SpecificationError
from .operation import Operation, Scheme

Pair = tuple[str, str]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Credentials:
    """What is added to a request, none of which may be shown or recorded."""

    headers: list[Pair] = field(default_factory=list, repr=False)
    query: list[Pair] = field(default_factory=list, repr=False)
    cookies: list[Pair] = field(default_factory=list, repr=False)
    secrets: list[str] = field(default_factory=list, repr=False)
    """Every form in which a server may send one of them back."""


@dataclass(frozen=True)
class Keys:
    """What the connection has."""

    key: str | None = field(default=None, repr=False)
    """For any scheme."""
    by_scheme: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the schemes of these names in the specification."""
    user: str | None = None
    """For `basic`, unless the key is `user:password` itself."""

    @classmethod
    def of(cls, connection: Connection | None, token: str | None = None) -> Keys:
        """Those of a connection; `token` is the one that was got with its client id and secret."""
        if connection is None or connection.kind == "anonymous":
            return cls()
        more: dict[str, Any] = connection.model_extra or {}
        named, user = more.get("keys"), more.get("username")
        by_scheme = {str(name): str(value) for name, value in named.items()} if isinstance(named, dict) else {}
        key = token or connection.api_key or more.get("password")
        return cls(str(key) if key else None, by_scheme, str(user) if user else None)

    def __bool__(self) -> bool:
        return bool(self.key or self.by_scheme)

    def for_scheme(self, scheme: Scheme, *, is_alone: bool) -> str | None:
        """The key for a scheme; None when there is none."""
        if scheme.kind == "unknown":
            return None
        return self.by_scheme.get(scheme.id) or (self.key if is_alone or self.by_scheme else None)


def credentials_for(operation: Operation, keys: Keys) -> Credentials:
    """What the operation is sent with: the first alternative of the specification for which there are keys.

    Raises SpecificationError when there are keys, but for none of the alternatives.
    """
    if not keys or operation.security == []:
        return Credentials()
    if operation.security is None:
        return _sent(keys, [(Scheme(id="", kind="bearer"), keys.key)] if keys.key else [])
    for alternative in operation.security:
        chosen = [(each, keys.for_scheme(each, is_alone=len(alternative) == 1)) for each in alternative]
        if alternative and all(key for _, key in chosen):
            return _sent(keys, chosen)
    if [] in operation.security:
        return Credentials()
    needed = " or ".join(" and ".join(f"{key.id} ({key.kind})" for key in each) for each in operation.security)
    raise SpecificationError(
        f"{operation.title} needs {needed}, for which the tool's connection has no key: write `apiKey`, or "
        "`keys: {SCHEME: ${env:NAME}}`, in it. Known are apiKey, basic, bearer, oauth2 and openIdConnect"
    )


def _sent(keys: Keys, chosen: list[tuple[Scheme, str | None]]) -> Credentials:
    sent = Credentials()
    for scheme, key in chosen:
        key = (key or "").strip()
        if _CONTROL.search(key):
            raise SpecificationError("a key of the tool's connection has a line end or another control character")
        sent.secrets.append(key)
        if scheme.kind == "apiKey":
            _place_of(scheme, sent).append((scheme.name, key))
            continue
        if scheme.kind == "basic":
            pair = key if keys.user is None else f"{keys.user}:{key}"
            key = base64.b64encode(pair.encode()).decode()
            sent.secrets.append(key)
        sent.headers.append(("Authorization", f"{'Basic' if scheme.kind == 'basic' else 'Bearer'} {key}"))
    return sent


def _place_of(scheme: Scheme, sent: Credentials) -> list[Pair]:
    return {"query": sent.query, "cookie": sent.cookies}.get(scheme.place, sent.headers)
