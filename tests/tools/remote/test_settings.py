"""What declarations of kind a2a may say, and where their requests and keys may go."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.declared_tools import CustomTool
from perdure.json_types import JsonObject
from perdure.tools.remote.kind import A2AKind
from perdure.tools.remote.settings import remote_settings


def declared(**fields: Any) -> CustomTool:
    """A declaration without problems, but for the fields."""
    plain = {
        "name": "weather",
        "kind": "a2a",
        "connection": {"kind": "key", "endpoint": "https://office.example/w/"},
    }
    return CustomTool.model_validate({**plain, **fields})


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"connection": None},
            "'connection.endpoint' is '': expected the base URL of the agent, such as",
        ),
        ({"connection": {"kind": "key"}}, "'connection.endpoint' is ''"),
        (
            {"connection": {"kind": "oauth", "endpoint": "https://x"}},
            "is 'oauth': expected one of key, remote, anonymous",
        ),
        (
            {"connection": {"kind": "key", "endpoint": "office"}},
            "'connection.endpoint' is 'office': expected the base URL",
        ),
        (
            {"connection": {"kind": "key", "endpoint": "ftp://office"}},
            "expected the base URL of the agent, such as https://agent.example",
        ),
        ({"connection": {"kind": "key", "endpoint": "https://me:pass@office"}}, "without user"),
        (
            {"connection": {"kind": "key", "endpoint": "https://office:99999"}},
            "expected the base URL",
        ),
        (
            {"options": {"allowedHost": ["x"]}},
            "options.allowedHost is unknown (did you mean 'allowedHosts'?)",
        ),
        (
            {"options": {"allowedHosts": ["https://x"]}},
            "options.allowedHosts: String should match pattern",
        ),
        (
            {"options": {"discoveryTimeout": 0}},
            "options.discoveryTimeout: Input should be greater than 0",
        ),
        (
            {"options": {"reconnectTimeout": "soon"}},
            "options.reconnectTimeout: Input should be a valid number",
        ),
        ({"parameters": [{"name": "x"}]}, "has no 'parameters'"),
        (
            {"conection": {}},
            "'conection' is not a key of a tool of kind a2a (did you mean 'connection'?)",
        ),
    ],
)
def test_problems_of_a_declaration(fields: JsonObject, problem: str) -> None:
    [found] = A2AKind().problems(declared(**fields))
    assert problem in found
    assert "pass@" not in found
    with pytest.raises(ValueError, match="expected|should|unknown|not a key|has no"):
        remote_settings(declared(**fields))


def test_a_declaration_whose_endpoint_is_not_known_yet() -> None:
    fields = {"kind": "key", "endpoint": "${env:OFFICE_URL}", "apiKey": "${env:OFFICE_KEY}"}
    options = {
        "discoveryTimeout": 5,
        "reconnectTimeout": 0,
        "allowedHosts": ["x", "y:80", "[::1]:8080", "${env:HOST}"],
    }
    assert A2AKind().problems(declared(connection=fields, options=options)) == []


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://office.example/a2a", True),
        ("https://OFFICE.example:443/other", True),
        ("https://office.example:8443/a2a", False),
        ("http://office.example/a2a", False),
        ("https://office.example.evil.example/", False),
        ("https://evil.example/office.example", False),
        ("https://office.example@evil.example/", False),
        ("https://evil.example#office.example", False),
        ("https://me:secret@office.example/", False),
        ("https://sub.office.example/", False),
        ("//office.example/a2a", False),
        ("/a2a", False),
        ("", False),
        ("https://", False),
        ("file:///etc/passwd", False),
        ("https://other.example/", True),
        ("https://other.example:8443/", False),
        ("https://ports.example:8443/", True),
        ("https://ports.example/", False),
        ("https://169.254.169.254/latest/meta-data", False),
        ("https://127.0.0.1/", False),
        ("https://[::1]/", False),
    ],
)
def test_where_requests_may_go(url: str, allowed: bool) -> None:
    settings = remote_settings(
        declared(options={"allowedHosts": ["Other.example", "ports.example:8443"]})
    )
    assert settings.allows(url) is allowed


def test_a_plain_endpoint_allows_an_encrypted_one_of_its_host() -> None:
    settings = remote_settings(
        declared(connection={"kind": "remote", "endpoint": "http://office:8080"})
    )
    assert settings.allows("http://office:8080/a2a")
    assert settings.allows("https://office:8080/a2a")
    assert not settings.allows("http://office/a2a")


def test_how_a_key_is_sent() -> None:
    with_key = remote_settings(
        declared(connection={"kind": "key", "endpoint": "https://x", "apiKey": "me:key"})
    )
    assert with_key.credentials({}) == {"Authorization": "Bearer me:key"}
    assert with_key.credentials({"scheme": "bearer"}) == {"Authorization": "Bearer me:key"}
    assert with_key.credentials({"scheme": "basic"}) == {"Authorization": "Basic bWU6a2V5"}
    assert with_key.credentials({"header": "X-Key"}) == {"X-Key": "me:key"}
    assert remote_settings(declared()).credentials({"header": "X-Key"}) == {}
