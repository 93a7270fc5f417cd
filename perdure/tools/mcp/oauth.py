"""OAuth for MCP servers: the SDK's flows; tokens stay in this process and in a file of its
owner.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from ssl import SSLContext
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from pydantic import AnyUrl, BaseModel, ValidationError

from ...commands import shell_word
from ...declared_tools import Connection
from ...private_files import data_folder, make_private_folder, write_private
from ...redaction import know_client, redacted_excerpt
from ...text import count_of, one_line
from ..http import read_body, reason_of
from .declaration import OAuth

MARGIN_SECONDS = 30.0
"""Seconds before its end at which a token is renewed."""
FLOW_SECONDS = 20.0
"""Seconds for getting a token."""
MAX_BYTES = 256 * 1024
"""Limit for one answer of an authorization server."""
logging.getLogger("mcp.client.auth.oauth2").setLevel(
    logging.CRITICAL
)  # It logs errors that are reported here.


class OAuthProblem(Exception):
    """There is no token for a server; the text has the reason and the remedy. Nothing was
    executed.
    """

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing
        """Whether a token may be available a little later."""


class Grant(BaseModel):
    """A grant, with the data to renew it."""

    tokens: OAuthToken
    expires_at: float | None = None
    """In seconds since 1970."""
    client: OAuthClientInformationFull | None = None
    server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None


class TokenStore:
    """The grant for one server: the SDK's `TokenStorage`. A person's grant is in a file, for all
    workers of a user.
    """

    def __init__(self, oauth: OAuth) -> None:
        self.oauth = oauth
        self.context: OAuthContext | None = None
        """The current flow, with its discovered metadata."""
        self.grant: Grant | None = None
        self._client: OAuthClientInformationFull | None = None
        self._name = hashlib.sha256(f"{oauth.endpoint}\n{oauth.client_id}".encode()).hexdigest()[
            :32
        ]

    @property
    def path(self) -> Path:
        """The file of a person's grant."""
        return data_folder() / "oauth" / f"{self._name}.json"

    @property
    def token(self) -> str:
        """The access token; "" without one, or shortly before its end."""
        if (
            self.grant is None
            or (self.grant.expires_at or float("inf")) < time.time() + MARGIN_SECONDS
        ):
            return ""
        return self.grant.tokens.access_token

    def read(self) -> None:
        """Load the grant that another process has written. Raises OAuthProblem for an unreadable
        file.
        """
        if not self.oauth.is_personal:
            return
        try:
            self.grant = Grant.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            self.grant = None
        except (OSError, ValidationError) as error:
            text = f"{type(error).__name__} at {str(self.path)!r}"
            raise OAuthProblem(f"its tokens can't be read ({text}): {self.advice}") from None
        self._keep_secret()

    @property
    def advice(self) -> str:
        """Instructions for the person."""
        client = f" --client-id {shell_word(self.oauth.client_id)}" if self.oauth.client_id else ""
        command = f"perdure connect {shell_word(self.oauth.endpoint)}{client}"
        named = (
            f"{command}, or the agent's file in its place," if self.oauth.client_secret else command
        )
        return f"type {named} where this worker runs, as its user (perdure docs tools-mcp)"

    async def get_tokens(self) -> OAuthToken | None:
        return self.grant.tokens if self.grant else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store them at once: the previous refresh token may be used up. Raises OAuthProblem,
        OSError.
        """
        before, context = self.grant, self.context
        if tokens.refresh_token is None and before is not None:
            tokens.refresh_token = before.tokens.refresh_token
        self.grant = Grant(
            tokens=tokens,
            expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
            client=context and context.client_info,
            server=context and context.oauth_metadata,
            resource=context and context.protected_resource_metadata,
        )
        self._keep_secret()
        if self.oauth.is_personal:
            make_private_folder(self.path.parent, is_own=True)
            beside = self.path.with_suffix(f".{os.getpid()}")
            write_private(beside, self.grant.model_dump_json(exclude_none=True))
            os.replace(beside, self.path)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Keep other processes, and other connections of this one, from renewing the same grant."""
        if not self.oauth.is_personal:
            yield
            return
        make_private_folder(self.path.parent, is_own=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _keep_secret(self) -> None:
        if self.grant is not None:
            found = self.grant.tokens
            know_client(
                f"oauth {self.oauth.endpoint}",
                Connection(
                    kind="key", api_key=found.access_token, client_secret=found.refresh_token
                ),
            )


class _Own(ClientCredentialsOAuthProvider):
    """Tokens of the client itself. Its secret goes to the server named in the file, whatever the
    MCP server says.
    """

    def __init__(self, oauth: OAuth, tokens: TokenStore) -> None:
        issuer = oauth.issuer or oauth.token_url
        super().__init__(
            oauth.endpoint, tokens, oauth.client_id, oauth.client_secret, issuer=issuer
        )
        self._oauth, self._issuer = oauth, oauth.issuer or None

    def _get_token_endpoint(self) -> str:
        return self._oauth.token_url or super()._get_token_endpoint()

    async def _perform_authorization(self) -> httpx2.Request:
        if self._oauth.scopes:
            self.context.client_metadata.scope = self._oauth.scopes
        return await super()._perform_authorization()


class _Personal(OAuthClientProvider):
    """Renews the tokens of a connected person, at the server that granted them; repeats no
    discovery.
    """

    def __init__(self, oauth: OAuth, tokens: TokenStore) -> None:
        super().__init__(oauth.endpoint, client_metadata(oauth, None), tokens)
        self._tokens = tokens

    async def _initialize(self) -> None:
        grant, context = self._tokens.grant, self.context
        if grant is None:
            raise OAuthProblem(f"it is not connected: {self._tokens.advice}")
        context.current_tokens, context.client_info = grant.tokens, grant.client
        context.oauth_metadata, context.protected_resource_metadata = grant.server, grant.resource
        context.token_expiry_time = 1.0  # Forces a renewal.
        if not context.can_refresh_token():
            text = (
                "its token has expired, and its authorization server gave no refresh token: "
                f"{self._tokens.advice}"
            )
            raise OAuthProblem(text)
        self._initialized = True

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        status = response.status_code
        if status == 200:
            return await super()._handle_refresh_response(response)
        said = one_line(redacted_excerpt(response.text), 200)
        if status == 429 or status >= 500:
            raise OAuthProblem(
                f"its authorization server answered HTTP {status}: {said}", passing=True
            )
        text = (
            f"its authorization server does not renew the token (HTTP {status}: {said}): "
            f"{self._tokens.advice}"
        )
        raise OAuthProblem(text)


def client_metadata(oauth: OAuth, redirect: str | None) -> OAuthClientMetadata:
    """Return perdure's metadata for an authorization server."""
    return OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect)] if redirect else None,
        client_name="perdure",
        scope=oauth.scopes or None,
        token_endpoint_auth_method="client_secret_basic" if oauth.client_secret else "none",
    )


async def drive(
    provider: OAuthClientProvider,
    request: httpx2.Request,
    refused: httpx2.Response | None,
    http: Sender,
) -> None:
    """Drive the SDK's flow until it has a token for the request, which is not sent.

    `refused` is the answer to an earlier request. Raises the errors of the flow and of `http`.
    """
    copy = httpx2.Request(request.method, request.url, headers=_version_of(request))
    async with aclosing(provider.async_auth_flow(copy)) as flow:
        outgoing = await anext(flow)
        while outgoing is not copy or refused is not None:
            if outgoing is copy:
                assert refused is not None
                response, refused = refused, None
            else:
                response = await http.send(outgoing)
            outgoing = await flow.asend(response)


def _version_of(request: httpx2.Request) -> dict[str, str]:
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    return {MCP_PROTOCOL_VERSION_HEADER: version} if version else {}


class Sender:
    """Sends the requests of a flow, with limits; only to these hosts, if given."""

    def __init__(self, verify: SSLContext, hosts: frozenset[str] | None = None) -> None:
        self._verify = verify
        self._hosts = hosts

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer; 404 for another host. Raises OAuthProblem."""
        if self._hosts is not None and request.url.netloc.decode() not in self._hosts:
            return httpx2.Response(404, request=request)
        try:
            async with (
                httpx2.AsyncClient(verify=self._verify, timeout=FLOW_SECONDS) as http,
                aclosing(await http.send(request, stream=True)) as response,
            ):
                content, is_whole = await read_body(response, MAX_BYTES)
        except httpx2.HTTPError as error:
            text = (
                f"{request.url.host}, which it is authorized by, can't be reached: "
                f"{reason_of(error)}"
            )
            raise OAuthProblem(text, passing=True) from None
        if not is_whole:
            raise OAuthProblem(f"{request.url.host} answered with more than {MAX_BYTES:,} bytes")
        headers = {
            name: response.headers.get(name, "") for name in ("content-type", "www-authenticate")
        }
        return httpx2.Response(
            response.status_code, headers=headers, content=content, request=request
        )


class OAuthTokens(httpx2.Auth):
    """Sends requests with a token, which it gets or renews as needed; concurrent requests wait for
    one renewal.
    """

    def __init__(self, oauth: OAuth, verify: SSLContext) -> None:
        self._oauth = oauth
        self._tokens = TokenStore(oauth)
        named = (oauth.endpoint, oauth.issuer, oauth.token_url)
        hosts = frozenset(urlsplit(url).netloc for url in named if url)
        self._http = Sender(verify, None if oauth.is_personal else hosts)
        self._renewal: asyncio.Task[str] | None = None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request, again with a new token if the first one is refused. Raises
        OAuthProblem.
        """
        sent = self._tokens.token
        if not sent and self._oauth.is_personal:
            sent = await self._next_token(request, None, "")
        if sent:
            request.headers["authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code == 401:
            token = await self._next_token(request, response, sent)
            request.headers["authorization"] = f"Bearer {token}"
            response = yield request
        if response.status_code == 401:
            raise OAuthProblem("it refuses the token that its authorization server has just given")
        if extract_field_from_www_auth(response, "error") == "insufficient_scope":
            needed = one_line(extract_scope_from_www_auth(response) or "others", 200)
            again = f", then {self._tokens.advice}" if self._oauth.is_personal else ""
            raise OAuthProblem(
                f"its token lacks scopes (needed: {needed}): add them to connection.scopes{again}"
            )

    async def _next_token(
        self, request: httpx2.Request, refused: httpx2.Response | None, sent: str
    ) -> str:
        """Return another token than the sent one. A cancelled request does not cancel the
        renewal.
        """
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(request, refused, sent))
        return await asyncio.shield(self._renewal)

    async def _renew(
        self, request: httpx2.Request, refused: httpx2.Response | None, sent: str
    ) -> str:
        try:
            async with self._tokens.lock():
                self._tokens.read()
                if (token := self._tokens.token) and token != sent:
                    return token
                async with asyncio.timeout(FLOW_SECONDS):
                    await drive(
                        self._provider(),
                        request,
                        None if self._oauth.is_personal else refused,
                        self._http,
                    )
        except TimeoutError:
            text = (
                f"its authorization server gave no token within {count_of(FLOW_SECONDS, 'second')}"
            )
            raise OAuthProblem(text, passing=True) from None
        except (OAuthFlowError, ValidationError, OSError) as error:
            text = one_line(redacted_excerpt(f"{error}"), 400)
            raise OAuthProblem(f"its authorization server gave no token: {text}") from None
        if not (token := self._tokens.token):
            raise OAuthProblem("its authorization server gave a token that expires at once")
        return token

    def _provider(self) -> OAuthClientProvider:
        kind = _Personal if self._oauth.is_personal else _Own
        provider = kind(self._oauth, self._tokens)
        self._tokens.context = provider.context
        return provider
