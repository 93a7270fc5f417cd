"""Lets a person grant tokens for an MCP server in a browser: `perdure connect`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import AnyHttpUrl, AnyUrl, ValidationError

from ...redaction import redacted_excerpt
from ...text import one_line
from .declaration import OAuth
from .http import tls_context
from .oauth import Grant, OAuthProblem, Sender, TokenStore, client_metadata, drive

Show = Callable[[str], Awaitable[None]]
Receive = Callable[[], Awaitable[AuthorizationCodeResult]]


class _Granting(OAuthClientProvider):
    """A person's flow. It never replaces a client that the owner has registered."""

    def __init__(
        self, oauth: OAuth, tokens: TokenStore, redirect: str, show: Show, receive: Receive
    ) -> None:
        super().__init__(oauth.endpoint, client_metadata(oauth, redirect), tokens, show, receive)
        self._oauth, self._redirect = oauth, redirect

    async def _initialize(self) -> None:
        oauth = self._oauth
        if oauth.client_id:
            self.context.client_info = OAuthClientInformationFull(
                client_id=oauth.client_id,
                client_secret=oauth.client_secret or None,
                redirect_uris=[AnyUrl(self._redirect)],
                token_endpoint_auth_method=self.context.client_metadata.token_endpoint_auth_method,
                issuer=oauth.issuer or None,
            )
        self._initialized = True

    async def _perform_authorization(self) -> httpx2.Request:
        oauth, context = self._oauth, self.context
        if oauth.client_id and (
            context.client_info is None or context.client_info.client_id != oauth.client_id
        ):
            text = (
                f"the server names the authorization server {context.auth_server_url}, expected "
                f"{oauth.issuer}"
            )
            raise OAuthFlowError(text)
        if oauth.scopes:
            context.client_metadata.scope = oauth.scopes
        if oauth.token_url and context.oauth_metadata is not None:
            endpoint = AnyHttpUrl(oauth.token_url)
            context.oauth_metadata = context.oauth_metadata.model_copy(
                update={"token_endpoint": endpoint}
            )
        return await super()._perform_authorization()


async def grant(oauth: OAuth, redirect: str, show: Show, receive: Receive) -> Grant:
    """Return a person's grant, and store it for the workers of this user.

    `show` gets the address for a browser, `receive` returns the data sent to `redirect`. Raises
    OAuthProblem, and the errors of these two.
    """
    tokens, http, request = TokenStore(oauth), Sender(tls_context()), _first_request(oauth.endpoint)
    provider = _Granting(oauth, tokens, redirect, show, receive)
    tokens.context = provider.context
    try:
        refused = await http.send(request)
        if refused.status_code != 401:
            text = (
                f"it answered HTTP {refused.status_code} without a token, expected 401: it asks "
                "for no authorization"
            )
            raise OAuthProblem(text)
        async with tokens.lock():
            await drive(provider, request, refused, http)
        if tokens.grant is None:
            raise OAuthProblem("its authorization server gave no token")
        request.headers["authorization"] = f"Bearer {tokens.grant.tokens.access_token}"
        accepted = await http.send(request)
    except OAuthRegistrationError as error:
        text = (
            f"its authorization server does not register clients dynamically ({_excerpt(error)}): "
            "register it there "
        )
        text += (
            f"by hand, with the redirect address {redirect}, and give its id (--client-id) and the "
            "port (--port)"
        )
        raise OAuthProblem(text) from None
    except (OAuthFlowError, ValidationError) as error:
        raise OAuthProblem(_excerpt(error)) from None
    if accepted.status_code in (401, 403):
        raise OAuthProblem(
            f"it refuses the token that was granted (HTTP {accepted.status_code}): check the scopes"
        )
    return tokens.grant


def _excerpt(error: Exception) -> str:
    return one_line(redacted_excerpt(str(error) or type(error).__name__), 400)


def _first_request(endpoint: str) -> httpx2.Request:
    headers = {
        "accept": "application/json, text/event-stream",
        MCP_PROTOCOL_VERSION_HEADER: LATEST_PROTOCOL_VERSION,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return httpx2.Request("POST", endpoint, headers=headers, json=body)
