"""Who asks: bearer tokens of a file, OpenID Connect's tokens, or a function of one's own say it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import httpx2
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.concurrency import run_in_threadpool

from ..errors import ConfigurationError
from ..prompty.portable import env_value, is_env_reference
from ..prompty.shorthands import map_strings
from ..redaction import get_logger
from .problems import HttpProblem, faults_in

logger = get_logger("perdure.gateway")


@dataclass(frozen=True)
class Identity:
    """Who asks."""

    name: str
    """As it is recorded with messages and decisions."""
    tenant: str | None = None
    """Whose runs are seen and reached; None for all."""
    roles: frozenset[str] = field(default_factory=frozenset)


IDENTIFIED = "perdure.identified"
"""Is in the scope of a request (ASGI) once it is known who asks."""
ANYBODY = Identity("anybody")
"""Who asks a gateway that asks nobody who they are."""


class Authenticator(Protocol):
    """Knows some of those who ask."""

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return who asks; None for a request without what this one knows them by. Names of headers are lower case.

        Raises `HttpProblem` for one that is wrong or out of date.
        """


class _Person(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    tenant: str | None = Field(default=None, min_length=1, max_length=64)
    roles: list[str] = []


class _Token(_Person):
    token: str | None = None
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _one_of_both(self) -> _Token:
        if (self.token is None) == (self.sha256 is None):
            raise ValueError(f"the token of {self.name!r}: expected either `token` or `sha256`")
        if self.token is not None and len(self.token) < MIN_TOKEN_CHARS:
            raise ValueError(f"the token of {self.name!r} has {len(self.token)} characters: at least {MIN_TOKEN_CHARS}")
        return self

    @property
    def digest(self) -> str:
        """The SHA-256 of the token, in hexadecimal."""
        return self.sha256 or hashlib.sha256((self.token or "").encode()).hexdigest()


class _TokenDocument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: list[_Token] = Field(min_length=1)


MIN_TOKEN_CHARS = 16
"""Of a bearer token: a shorter one can be guessed."""


def bearer_of(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request; "" without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class TokenFile:
    """The bearer tokens of a file, which is read when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._known: dict[str, Identity] = {}
        self._read()

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """See `Authenticator`."""
        if not (token := bearer_of(headers)):
            return None
        self._read()
        given = hashlib.sha256(token.encode()).hexdigest()
        found = [identity for digest, identity in self._known.items() if hmac.compare_digest(digest, given)]
        return found[0] if found else None

    def _read(self) -> None:
        """Read the file if it has changed; one that has become wrong is said to be so, and what it said counts on.

        Raises `ConfigurationError` for a file that is wrong from the beginning.
        """
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                return
            self._known = _identities_in(self._path)
            self._stamp = stamp
        except (OSError, ValueError, ConfigurationError, yaml.YAMLError) as error:
            why = faults_in(error) if isinstance(error, ValidationError) else str(error)
            if self._stamp is None:
                raise ConfigurationError(
                    f"The file of tokens {str(self._path)!r} can't be used: {why}. Expected a list `tokens`, each with "
                    "`name`, `token` (`${env:NAME}`) or `sha256`, and `tenant` and `roles` if wanted"
                ) from error
            logger.error("the file of tokens can't be read any more, what it said before counts: %s", why)


def _identities_in(path: Path) -> dict[str, Identity]:
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    read = _TokenDocument.model_validate(map_strings(written, lambda place, text: _value_of(text)))
    return {each.digest: Identity(each.name, each.tenant, frozenset(each.roles)) for each in read.tokens}


def _value_of(text: str) -> str:
    if not is_env_reference(text):
        return text
    if (value := env_value(text)) is None:
        raise ValueError(f"{text}: the variable is not set")
    return value


IdentifyFunction = Callable[[Mapping[str, str]], "Identity | Mapping[str, Any] | None | Awaitable[Any]"]
"""Is given the request's headers; returns who asks, as an `Identity` or as name, tenant and roles, or None."""


class Function:
    """A function of the operator's own."""

    def __init__(self, function: IdentifyFunction) -> None:
        self._function = function

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """See `Authenticator`. Who can't be judged, because the function fails, is nobody."""
        try:
            if inspect.iscoroutinefunction(self._function):
                found = await self._function(dict(headers))
            else:
                found = await run_in_threadpool(self._function, dict(headers))
            if found is None or isinstance(found, Identity):
                return found
            person = _Person.model_validate(found)
        except Exception as error:  # Whatever the function raises.
            logger.warning("the function that identifies who asks has failed: %s", type(error).__name__)
            return None
        return Identity(person.name, person.tenant, frozenset(person.roles))


ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Of signatures: those with a public key."""
KEYS_SECONDS = 300.0
"""So long an issuer's keys count before they are asked for again."""


@dataclass(frozen=True)
class OpenIdSettings:
    """What tokens of an issuer must have, and where they say who somebody is."""

    issuer: str
    audience: str
    keys: str = ""
    """A URL or a file of JSON Web Keys; "" for what the issuer's own document names."""
    name_claim: str = "sub"
    tenant_claim: str = ""
    """A claim, or a path to it with dots; "" for no tenants."""
    roles_claim: str = ""


class OpenId:
    """JSON Web Tokens of an OpenID Connect issuer."""

    def __init__(self, settings: OpenIdSettings) -> None:
        import jwt  # of the extra, as all of this room is; only where tokens of this kind are taken

        self._jwt = jwt
        self.settings = settings
        self._keys: Any = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """See `Authenticator`. Raises `HttpProblem` for a token that is not valid, or when the keys can't be had."""
        token, jwt, settings = bearer_of(headers), self._jwt, self.settings
        if token.count(".") != 2:
            return None
        try:
            key = await self._key(jwt.get_unverified_header(token).get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=settings.audience,
                issuer=settings.issuer,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise HttpProblem(401, "unauthenticated", f"the token is not accepted: {error}") from error
        return self._identity(claims)

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        settings = self.settings
        name, tenant = _claim(claims, settings.name_claim), _claim(claims, settings.tenant_claim)
        if not isinstance(name, str) or not name:
            raise HttpProblem(
                403, "forbidden", f"the token says nobody's name: it has no claim {settings.name_claim!r}"
            )
        if settings.tenant_claim and (not isinstance(tenant, str) or not tenant):
            claim = settings.tenant_claim
            raise HttpProblem(403, "forbidden", f"the token names no tenant: it has no claim {claim!r}")
        roles = _claim(claims, settings.roles_claim) or []
        named = [roles] if isinstance(roles, str) else [each for each in roles if isinstance(each, str)]
        return Identity(name, tenant or None, frozenset(named))

    async def _key(self, id: str | None) -> Any:
        """Return the issuer's key of that id; they are read again when it is unknown, but not at every request."""
        async with self._reading:
            is_old = time.monotonic() - self._read_at > KEYS_SECONDS
            if self._keys is None or is_old or (self._find(id) is None and time.monotonic() - self._read_at > 10.0):
                self._keys = await run_in_threadpool(self._read_keys)
                self._read_at = time.monotonic()
        if (key := self._find(id)) is None:
            raise HttpProblem(401, "unauthenticated", "the token is signed with a key that its issuer does not name")
        return key

    def _find(self, id: str | None) -> Any:
        keys = list(self._keys.keys) if self._keys is not None else []
        if id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == id), None)

    def _read_keys(self) -> Any:
        try:
            text = _read(self.settings.keys or self._keys_address())
            return self._jwt.PyJWKSet.from_json(text)
        except (OSError, ValueError, self._jwt.PyJWTError) as error:
            logger.error("the keys of %s can't be had: %s", self.settings.issuer, error)
            raise HttpProblem(503, "keys_missing", "the keys of the tokens' issuer can't be had") from error

    def _keys_address(self) -> str:
        document = json.loads(_read(self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"))
        return cast(str, document["jwks_uri"])


MAX_KEYS_BYTES = 1024 * 1024
"""Of an issuer's documents."""


def _read(place: str) -> str:
    """Return the text of a file or of a URL, at most `MAX_KEYS_BYTES`. Raises OSError and ValueError."""
    if not place.startswith(("https://", "http://")):
        return Path(place).read_text(encoding="utf-8")
    try:
        with httpx2.stream("GET", place, timeout=10.0) as answer:
            answer.raise_for_status()
            return _read_bounded(answer.iter_bytes(), place).decode()
    except httpx2.HTTPError as error:
        raise OSError(f"{place}: {error}") from error


def _read_bounded(chunks: Iterable[bytes], place: str) -> bytes:
    """Return the content. Raises ValueError for more than `MAX_KEYS_BYTES`."""
    content = b""
    for chunk in chunks:
        content += chunk
        if len(content) > MAX_KEYS_BYTES:
            raise ValueError(f"{place} has more than {MAX_KEYS_BYTES} bytes")
    return content


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    found: Any = claims
    for name in path.split(".") if path else [""]:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


async def identity_of(headers: Mapping[str, str], authenticators: Sequence[Authenticator]) -> Identity:
    """Return who asks. Raises `HttpProblem` for a request that none of the authenticators knows; without any, it is
    anybody's.
    """
    if not authenticators:
        return ANYBODY
    known = {name.lower(): value for name, value in headers.items()}
    for authenticator in authenticators:
        if found := await authenticator.identify(known):
            return found
    raise HttpProblem(
        401,
        "unauthenticated",
        "expected the header `Authorization: Bearer TOKEN` with a token that this gateway knows",
    )
