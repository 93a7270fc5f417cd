"""Secrets are taken out of texts before they are recorded."""

from __future__ import annotations

import json

import pytest

from perdure.agent import Agent
from perdure.prompty.load import load_dict
from perdure.redaction import Redactor, Secret, redact


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
    assert redact(text, agent) == "wrong key ${env:MY_OWN_NAME}, wrong key ${env:SOME_API_KEY}, right word secret"
    assert redact("nothing to hide", Agent()) == "nothing to hide"


@pytest.mark.parametrize("secret", ["pass wörd of the crm", "line one\nline two", "nul\x00and more"])
def test_the_forms_in_which_a_secret_comes_back(secret: str) -> None:
    redactor, sent = Redactor([Secret(secret, "(gone)")]), secret.encode()
    for form in (secret, repr(secret), repr(sent), json.dumps(secret), sent.decode("latin-1")):
        said = redactor.text(f"Illegal header value {form}!")
        assert "(gone)" in said
        assert len(said) <= len("Illegal header value b'(gone)'!")
