"""Secrets are taken out of texts before they are recorded."""

from __future__ import annotations

import json
import logging
import time

import pytest

from perdure.agents import Agent
from perdure.prompty.load import load_dict
from perdure.redaction import (
    MAX_LOGGED_CHARS,
    REDACTED,
    Redactor,
    Secret,
    get_logger,
    redact,
    redacted_excerpt,
)


def test_keys_are_taken_out_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_OWN_NAME", "sk-0123456789")
    monkeypatch.setenv("SOME_API_KEY", "ambient-secret-value")
    agent = load_dict(
        {
            "name": "a",
            "model": {"id": "m", "connection": {"kind": "key", "apiKey": "${env:MY_OWN_NAME}"}},
            "instructions": "hi",
        }
    )
    text = "wrong key sk-0123456789, wrong key ambient-secret-value, right word secret"
    assert (
        redact(text, agent)
        == "wrong key ${env:MY_OWN_NAME}, wrong key ${env:SOME_API_KEY}, right word secret"
    )
    assert redact("nothing to hide", Agent()) == "nothing to hide"


@pytest.mark.parametrize(
    "secret", ["pass wörd of the crm", "line one\nline two", "nul\x00and more"]
)
def test_the_forms_in_which_a_secret_comes_back(secret: str) -> None:
    redactor, sent = Redactor([Secret(secret, "(gone)")]), secret.encode()
    for form in (secret, repr(secret), repr(sent), json.dumps(secret), sent.decode("latin-1")):
        said = redactor.text(f"Illegal header value {form}!")
        assert "(gone)" in said
        assert len(said) <= len("Illegal header value b'(gone)'!")


@pytest.mark.parametrize(
    "name",
    [
        "DB_CREDENTIAL",
        "DB_CREDENTIALS",
        "DB_PWD",
        "SITE_COOKIE",
        "PROXY_AUTH",
        "X_AUTHORIZATION",
        "db_pwd",
    ],
)
def test_names_of_variables_that_hold_secrets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "planted secret value")
    assert redact("it is planted secret value") == f"it is ${{env:{name}}}"


def test_each_header_of_a_variable_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "OTEL_EXPORTER_OTLP_HEADERS"
    monkeypatch.setenv(name, "x-team=plantedkey,authorization=Basic%20cGxhbnRlZA%3D%3D, other=b")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "X-Gateway: planted gateway\nX-B: Bearer planted-token"
    )
    said = "plantedkey, Basic cGxhbnRlZA==, cGxhbnRlZA%3D%3D, planted gateway, planted-token"
    names = ["OTEL_EXPORTER_OTLP_HEADERS"] * 3 + ["OPENAI_CUSTOM_HEADERS"] * 2
    expected = "{}, Basic {}, {}, {}, {}".format(*(f"${{env:{name}}}" for name in names))
    assert redact(said) == expected


def test_a_long_text_is_shortened_before_it_is_searched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "planted-" + "x" * 5000
    monkeypatch.setenv("SOME_API_KEY", secret)
    cut = MAX_LOGGED_CHARS * 3 // 4
    for at in (cut - len(secret), cut - len(secret) // 2, cut - 1):
        text = "a" * at + secret + "b" * 10_000_000
        found = redacted_excerpt(text)
        assert len(found) < MAX_LOGGED_CHARS
        assert "planted" not in found
        assert "xx" not in found
    log = get_logger("perdure.test_redaction")
    try:
        raise ValueError("y" * 10_000_000)
    except ValueError as error:
        log.error("It raised %s", error, exc_info=error)
    [record] = [record for record in caplog.records if record.name == log.name]
    assert isinstance(record, logging.LogRecord)
    assert len(record.getMessage()) <= MAX_LOGGED_CHARS
    assert len(record.exc_text or "") <= MAX_LOGGED_CHARS
    assert (record.exc_text or "").startswith("Traceback")


@pytest.mark.parametrize(
    "piece", ["eyJ-", "eyJabcdefgh.", "a.eyJ-", "Bearer ", "-----BEGIN ", "://a", "?a", "sk-"]
)
def test_whatever_a_text_consists_of_it_is_searched_in_linear_time(piece: str) -> None:
    """What a far end says is searched on the worker's event loop."""
    began = time.process_time()
    redact(piece * (MAX_LOGGED_CHARS // len(piece)))
    assert time.process_time() - began < 3


@pytest.mark.parametrize("before", ["", "Bearer ", "jwt-", "a.b.", "x=", "eyJ-", "eyJa."])
def test_a_web_token_is_found(before: str) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVP"
    text = redact(f"{before}{token}; {token}")
    assert REDACTED in text
    assert "eyJz" not in text
    assert "dBjf" not in text
