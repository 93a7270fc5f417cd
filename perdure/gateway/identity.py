"""Identifies clients by bearer tokens from a file, by OpenID Connect tokens, or by a custom
function.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import httpx2
import jwt
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.concurrency import run_in_threadpool

from ..errors import ConfigurationError
from ..json_types import JsonView
from ..prompty.portable import env_value, is_env_reference
from ..prompty.shorthands import map_strings
from ..redaction import get_logger
from .problems import WITHOUT_CONTROLS, HttpProblem, faults_in
from .recent import MAX_SECONDS, RecentAnswers

logger = get_logger("perdure.gateway")


@dataclass(frozen=True)
class Identity:
    """The identity of a client."""

    name: str
    """The name recorded with messages and decisions."""
    tenant: str | None = None
    """The tenant whose runs the client may see and access; None for all."""
    roles: frozenset[str] = field(default_factory=frozenset)


IDENTIFIED = "perdure.identified"
"""The key, in a request's ASGI scope, of the client's `Identity`, or of the error by which no
authenticator recognized it."""
ANYBODY = Identity("anybody")
"""The identity of all clients of a gateway without authentication."""


class Authenticator(Protocol):
    """Identifies some of the clients."""

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return the client's identity; None for a request without this authenticator's
        credentials. Header names are lower case.

        Raises `HttpProblem` for invalid or expired credentials.
        """


class _Person(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200, pattern=WITHOUT_CONTROLS)
    tenant: str | None = Field(default=None, min_length=1, max_length=64, pattern=WITHOUT_CONTROLS)
    roles: list[str] = []


class _Token(_Person):
    token: str | None = None
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _one_of_both(self) -> _Token:
        if (self.token is None) == (self.sha256 is None):
            raise ValueError(f"the token of {self.name!r}: expected either `token` or `sha256`")
        if self.token is not None and len(self.token) < MIN_TOKEN_CHARS:
            raise ValueError(
                f"the token of {self.name!r} has {len(self.token)} characters: at least "
                f"{MIN_TOKEN_CHARS}"
            )
        return self

    @property
    def digest(self) -> str:
        """The SHA-256 of the token, in hexadecimal."""
        return self.sha256 or hashlib.sha256((self.token or "").encode()).hexdigest()


class _TokenDocument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: list[_Token] = Field(min_length=1)


MIN_TOKEN_CHARS = 16
"""Minimum length of a bearer token: a shorter one can be guessed."""


def bearer_of(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request; "" without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class TokenFile:
    """The bearer tokens of a file, which is read again when it changes."""

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
        return self._known.get(hashlib.sha256(token.encode()).hexdigest())

    def _read(self) -> None:
        """Read the file if it has changed. If its new content is invalid, log that, and keep the
        old content.

        Raises `ConfigurationError` for a file that is invalid from the beginning.
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
                    f"The file of tokens {str(self._path)!r} can't be used: {why}. Expected a list "
                    f"`tokens`, each with `name`, `token` (`${{env:NAME}}`) or `sha256`, and "
                    "optionally `tenant` and `roles`"
                ) from error
            logger.error(
                "the file of tokens cannot be read, the previous tokens stay valid: %s", why
            )


def _identities_in(path: Path) -> dict[str, Identity]:
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(written, dict):
        raise ValueError("it has no key `tokens`" if written else "it is empty")
    read = _TokenDocument.model_validate(map_strings(written, lambda place, text: _value_of(text)))
    return {
        each.digest: Identity(each.name, each.tenant, frozenset(each.roles)) for each in read.tokens
    }


def _value_of(text: str) -> str:
    if not is_env_reference(text):
        return text
    if (value := env_value(text)) is None:
        raise ValueError(f"{text}: the variable is not set")
    return value


IdentifyFunction = Callable[[Mapping[str, str]], "Identity | JsonView | None | Awaitable[Any]"]
"""Takes the request's headers, and returns the client as an `Identity` or as name, tenant and
roles, or None."""


class Function:
    """A custom function of the operator."""

    def __init__(self, function: IdentifyFunction) -> None:
        self._function = function

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Identify a client as in `Authenticator`. If the function fails, the client is not
        identified.
        """
        try:
            if inspect.iscoroutinefunction(self._function):
                found = await self._function(dict(headers))
            else:
                found = await run_in_threadpool(self._function, dict(headers))
            if found is None or isinstance(found, Identity):
                return found
            return _identity(found)
        except Exception as error:  # The function may raise anything.
            logger.warning(
                "the function that identifies who asks has failed: %s", type(error).__name__
            )
            return None


def _identity(person: JsonView) -> Identity:
    """Return the identity. Raises `ValidationError`."""
    read = _Person.model_validate(person)
    return Identity(read.name, read.tenant, frozenset(read.roles))


ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Signature algorithms with a public key."""


@dataclass(frozen=True)
class OpenIdSettings:
    """Requirements for an issuer's tokens, and the claims that identify a client."""

    issuer: str
    audience: str
    keys: str = ""
    """A URL or a file of JSON Web Keys; "" for the URL in the issuer's discovery document."""
    name_claim: str = "sub"
    tenant_claim: str = ""
    """The tenant's claim, or a dotted path to it; "" for no tenants."""
    roles_claim: str = ""
    keys_seconds: float = 300.0
    """Seconds after which the keys are fetched again."""
    client: str = ""
    """The id under which the issuer knows the page, a public client; "" where it does not."""
    scope: str = "openid"
    """The scopes that the page asks for, separated by spaces."""


class OpenId:
    """Authenticates with JSON Web Tokens of an OpenID Connect issuer."""

    def __init__(self, settings: OpenIdSettings) -> None:
        self.settings = settings
        self._keys = _IssuerKeys(settings, lambda text: jwt.PyJWKSet.from_json(text).keys)
        self._documents = RecentAnswers()

    async def described(self) -> JsonView:
        """Return the issuer's discovery document, at most `MAX_SECONDS` old. Raises as `discovered`
        does.
        """
        read = partial(discovered, self.settings.issuer)
        return cast(JsonView, await self._documents.get("", MAX_SECONDS, read))

    async def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Identify a client as in `Authenticator`. Raises `HttpProblem` for an invalid token, or if
        no keys are available.
        """
        token, settings = bearer_of(headers), self.settings
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
        except (jwt.PyJWTError, RecursionError) as error:
            raise HttpProblem(
                401, "unauthenticated", f"the token is not accepted: {str(error)[:200]}"
            ) from error
        return self._identity(claims)

    def _identity(self, claims: JsonView) -> Identity:
        settings = self.settings
        name, tenant = _claim(claims, settings.name_claim), _claim(claims, settings.tenant_claim)
        roles = _claim(claims, settings.roles_claim) or []
        if not name:
            raise HttpProblem(403, "forbidden", f"the token has no claim {settings.name_claim!r}")
        if settings.tenant_claim and not tenant:
            claim = settings.tenant_claim
            raise HttpProblem(
                403, "forbidden", f"the token names no tenant: it has no claim {claim!r}"
            )
        try:
            return _identity(
                {
                    "name": name,
                    "tenant": tenant,
                    "roles": [roles] if isinstance(roles, str) else roles,
                }
            )
        except ValidationError as error:
            raise HttpProblem(
                403, "forbidden", f"the token's claims can't be used: {faults_in(error)}"
            ) from error

    async def _key(self, id: str | None) -> Any:
        key = await self._keys.find(id)
        if key is None and not self._keys.are_known:
            raise HttpProblem(
                503,
                "keys_missing",
                "the keys of the tokens' issuer can't be fetched",
                headers={"Retry-After": "10"},
            )
        if key is None:
            raise HttpProblem(
                401,
                "unauthenticated",
                "the token is signed with a key that its issuer does not name",
            )
        return key


UNKNOWN_SECONDS = 10.0
"""Minimum seconds between two fetches of the keys because of a token with an unknown key."""
KEPT_SECONDS = 24 * 3600.0
"""Seconds for which keys stay valid while their issuer is unreachable."""
ISSUER_SECONDS = 5.0
"""Seconds for an issuer's whole response."""


class _IssuerKeys:
    """The keys of an issuer. One fetch at a time serves all requests; those with a known key do not
    wait.
    """

    def __init__(self, settings: OpenIdSettings, parse: Callable[[str], Any]) -> None:
        self._settings = settings
        self._parse = parse
        self._keys: Sequence[Any] = ()
        self._read_at = self._asked_at = -math.inf
        self._asking: asyncio.Task[None] | None = None

    @property
    def are_known(self) -> bool:
        """Whether the keys were fetched recently enough."""
        return time.monotonic() - self._read_at < KEPT_SECONDS

    async def find(self, id: str | None) -> Any:
        """Return the key of that id, or the only one for None; None if there is none."""
        key = self._find(id)
        is_idle = self._asking is None or self._asking.done()
        pause = UNKNOWN_SECONDS if key is None else self._settings.keys_seconds
        if is_idle and time.monotonic() - self._asked_at > pause:
            self._asked_at = time.monotonic()
            self._asking = asyncio.create_task(self._ask())
        if key is None and self._asking is not None:
            await asyncio.wait([self._asking])
            key = self._find(id)
        return key

    def _find(self, id: str | None) -> Any:
        keys = self._keys if self.are_known else ()
        if id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == id), None)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(ISSUER_SECONDS):
                self._keys = self._parse(await _read(self._settings.keys or await self._address()))
            self._read_at = time.monotonic()
        except Exception as error:  # The issuer's answer may raise anything.
            logger.error(
                "the keys of %s can't be fetched: %s", self._settings.issuer, repr(error)[:500]
            )

    async def _address(self) -> str:
        return cast(str, (await discovered(self._settings.issuer))["jwks_uri"])


async def discovered(issuer: str) -> JsonView:
    """Return the issuer's discovery document. Raises as httpx does, ValueError and TimeoutError."""
    place = issuer.rstrip("/") + "/.well-known/openid-configuration"
    async with asyncio.timeout(ISSUER_SECONDS):
        return cast(JsonView, json.loads(await _read(place)))


MAX_KEYS_BYTES = 1024 * 1024
"""Size limit of an issuer's documents."""


async def _read(place: str) -> str:
    """Return the text of a file or of a URL. Raises OSError, and ValueError for more than
    `MAX_KEYS_BYTES`.
    """
    if not place.startswith(("https://", "http://")):
        return Path(place).read_text(encoding="utf-8")
    content = b""
    async with (
        httpx2.AsyncClient(timeout=ISSUER_SECONDS) as http,
        http.stream("GET", place) as answer,
    ):
        answer.raise_for_status()
        async for chunk in answer.aiter_bytes():
            content += chunk
            if len(content) > MAX_KEYS_BYTES:
                raise ValueError(f"{place} has more than {MAX_KEYS_BYTES} bytes")
    return content.decode()


def _claim(claims: JsonView, path: str) -> Any:
    found: Any = claims
    for name in path.split(".") if path else [""]:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


async def identity_of(
    headers: Mapping[str, str], authenticators: Sequence[Authenticator]
) -> Identity:
    """Return the client's identity; without authenticators, that is `ANYBODY`. Raises `HttpProblem`
    for a request that no authenticator recognizes.
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
