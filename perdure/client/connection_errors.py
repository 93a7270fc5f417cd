"""Explains failed connections to Temporal and refused requests: the cause, and the remedy."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from temporalio.service import RPCStatusCode

from ..errors import ConfigurationError
from ..text import one_line


class _Cause(NamedTuple):
    """One cause of a failed connection, recognised by the SDK's message."""

    pattern: str
    text: str
    remedy: str
    has_tls: bool | None = None
    """True for TLS connections only, False for connections without TLS only."""


_CA = (
    "set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the certificate of the authority that issued the "
    "server's"
)
_NAME = "set TEMPORAL_TLS_SERVER_NAME to a name in the server's certificate"
_CLIENT = (
    "set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH to a certificate that the "
    "server accepts"
)
_CLOSED = (
    r"transport error|operation was canceled|connection closed|broken pipe|UnexpectedEof|"
    r"connection reset"
)
_CAUSES = (
    _Cause(
        r"Unauthenticated|PermissionDenied",
        "it refuses the credentials",
        "set TEMPORAL_API_KEY to a valid key, or " + _CLIENT,
    ),
    _Cause(
        r"InvalidContentType|InvalidMessage|WRONG_VERSION_NUMBER",
        "it does not speak TLS, and this connection does",
        "set TEMPORAL_TLS=false, or name the port that has TLS",
    ),
    _Cause(
        r"InvalidCertificate\(Expired",
        "its certificate has expired",
        "renew the server's certificate",
    ),
    _Cause(
        r"InvalidCertificate\(NotValidYet",
        "its certificate is not valid yet",
        "compare the clocks of both machines, and the dates of the certificate",
    ),
    _Cause(
        r"NotValidForName(?:.*?expected: \w+\((?P<expected>[^)]*)\))?(?:.*?presented: "
        r"\[(?P<has>[^\]]*)\])?",
        "its certificate is for another name: expected {expected}, it has {has}",
        _NAME,
    ),
    _Cause(
        r"UnknownIssuer|InvalidCertificate\(BadSignature",
        "its certificate is from an authority that is not trusted",
        _CA,
    ),
    _Cause(r"InvalidCertificate", "its certificate is not accepted", f"{_CA}, or {_NAME}"),
    _Cause(
        r"KeyMismatch|InconsistentKeys",
        "the client's private key does not belong to its certificate",
        "set TEMPORAL_TLS_CLIENT_KEY_PATH to the key of the certificate in "
        "TEMPORAL_TLS_CLIENT_CERT_PATH",
    ),
    _Cause(
        r"CertificateRequired|certificate required|AlertReceived|HandshakeFailure|BadCertificate|"
        r"UnknownCA",
        "it refuses the client's certificate",
        _CLIENT,
    ),
    _Cause(
        _CLOSED,
        "it closes each connection: it may want another client certificate",
        _CLIENT,
        has_tls=True,
    ),
    _Cause(
        _CLOSED,
        "it closes each connection: it may speak TLS only",
        "set TEMPORAL_TLS=true",
        has_tls=False,
    ),
)
_UNREACHABLE = {
    "Connection refused": "connection refused",
    "failed to lookup address": "unknown host name",
    "invalid target URL": "not a host:port",
}
_PORT = re.compile(r":\d+$")
REMEDIES = {
    RPCStatusCode.UNAVAILABLE: (
        "the server is away or starting: runs are safe, and go on when it is back. Repeat this "
        "then; `perdure dev` starts an embedded server"
    ),
    RPCStatusCode.DEADLINE_EXCEEDED: (
        "the server was too slow, and may have done it: look with `perdure ls`, and repeat it "
        "with the same id"
    ),
    RPCStatusCode.RESOURCE_EXHAUSTED: (
        "a limit of the server or the namespace is reached: repeat this later, or raise the limit "
        "(`perdure docs operating`)"
    ),
    RPCStatusCode.UNAUTHENTICATED: (
        "set TEMPORAL_API_KEY, or the certificate in TEMPORAL_TLS_CLIENT_CERT_PATH"
    ),
    RPCStatusCode.PERMISSION_DENIED: (
        "the credentials are expired, or lack a role in this namespace (TEMPORAL_NAMESPACE): set "
        "TEMPORAL_API_KEY to a token with `write`, or `read` for lists (`perdure docs security`)"
    ),
}
"""The remedy for a request that the server refused with this status."""


def connection_error(
    target: str, reason: str, *, has_tls: bool, is_from_environment: bool
) -> ConfigurationError:
    """Return the error for a failed connection; `reason` is from the SDK's message.

    `is_from_environment` is true when the environment names this server: then `perdure dev` alone
    does not help.
    """
    if not any(part in reason for part in _UNREACHABLE):
        for cause in _CAUSES:
            found = re.search(cause.pattern, reason, re.DOTALL)
            if found and cause.has_tls in (None, has_tls):
                return _refusal(target, cause, found)
    short = next(
        (text for part, text in _UNREACHABLE.items() if part in reason), one_line(reason, 300)
    )
    if not _PORT.search(target):
        short += ", and the address has no port, such as :7233"
    return ConfigurationError(
        f"No Temporal server reachable at {target!r} ({short}). Expected a running server at "
        f"host:port: {_another_server(is_from_environment)}, or name another with "
        "TEMPORAL_ADDRESS=host:port."
    )


def _refusal(target: str, cause: _Cause, found: re.Match[str]) -> ConfigurationError:
    named = {name: _names(value) for name, value in found.groupdict().items()}
    text = cause.text.format(**named)
    return ConfigurationError(
        f"The Temporal server at {target!r} can't be used: {text}. To fix it, {cause.remedy}."
    )


def _names(shown: str | None) -> str:
    """Return the names in a part of the SDK's message, such as `DnsName("a.example")`."""
    return ", ".join(re.findall(r"[\w.:*-]*[.:][\w.:*-]*|localhost", shown or "")) or "another one"


def _another_server(is_from_environment: bool) -> str:
    if not is_from_environment:
        return "start one with `perdure dev`"
    named = (
        "unset TEMPORAL_ADDRESS"
        if "TEMPORAL_ADDRESS" in os.environ
        else "take it out of the profile of temporal.toml"
    )
    return f"start that server, or {named} and type `perdure dev` for an embedded one"
