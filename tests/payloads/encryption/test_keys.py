"""Keys in the environment: what encrypts, what only decrypts, and what is refused at the start."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.errors import ConfigurationError
from perdure.payloads.converter import converter_from_environment, data_converter, with_converter
from perdure.payloads.encryption import EncryptionError, encryption_from_environment
from perdure.redaction import REDACTED, redact

SECRET = base64.b64encode(b"k" * 32).decode()
OTHER = base64.urlsafe_b64encode(b"\xff" * 32).decode()


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEY", "KEY_FILE", "REQUIRED"):
        monkeypatch.delenv(f"PERDURE_ENCRYPTION_{name}", raising=False)


def test_without_keys_nothing_is_encrypted() -> None:
    assert encryption_from_environment() is None


def test_the_first_key_encrypts_and_each_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEY", f"new:{SECRET}, old:{OTHER}")
    encryption = encryption_from_environment()
    assert encryption is not None
    assert [key.id for key in encryption.keys] == ["new", "old"]
    assert redact(f"{SECRET} and {OTHER}") == f"{REDACTED} and {REDACTED}"


def test_keys_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# since November\nnew:{SECRET}\nold:{OTHER}  # until then\n\n")
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEY_FILE", str(tmp_path / "keys"))
    encryption = encryption_from_environment()
    assert encryption is not None
    assert [key.id for key in encryption.keys] == ["new", "old"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no key"),
        (" , ", "has no key"),
        (SECRET, "entry 1: the key's id is one of 44 characters, expected KEYID:BASE64KEY"),
        ("a", "expected KEYID:BASE64KEY"),
        (f"a:{SECRET},b:{SECRET[:-8]}", r"entry 2 \('b'\): the key (has 2\d bytes|is not base64)"),
        ("a:not base64!", "the key is not base64"),
        (f"a b:{SECRET}", "the key's id is 'a b'"),
        (f":{SECRET}", "the key's id is ''"),
        (f"a:{SECRET},a:{OTHER}", "entry 2: .* an id of its own"),
    ],
)
def test_malformed_keys_are_refused_and_not_shown(
    text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEY", text)
    with pytest.raises(ConfigurationError, match=problem) as raised:
        converter_from_environment()
    assert SECRET[:16] not in str(raised.value)
    assert "PERDURE_ENCRYPTION_KEY" in str(raised.value)


def test_a_file_that_is_not_there_and_two_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEY_FILE", "/none/keys")
    with pytest.raises(EncryptionError, match="can't be read: No such file"):
        encryption_from_environment()
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEY", f"a:{SECRET}")
    with pytest.raises(EncryptionError, match="are both set"):
        encryption_from_environment()


@pytest.mark.parametrize(
    ("value", "problem"), [("1", "and no key"), ("perhaps", "expected 1, or 0")]
)
def test_required_without_a_key(value: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_ENCRYPTION_REQUIRED", value)
    with pytest.raises(EncryptionError, match=problem):
        encryption_from_environment()


def test_a_converter_of_ones_own_has_to_encrypt(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEY", f"a:{SECRET}")
    with pytest.raises(EncryptionError, match="does not encrypt"):
        with_converter(client)
    settings = client.config(active_config=True)
    settings["data_converter"] = data_converter(encryption=f"b:{SECRET}")
    encrypting = type(client)(**settings)
    assert with_converter(encrypting) is encrypting
