"""What connections are checked with is made anew when its file is replaced."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from perdure.providers.clients import tls_context
from perdure.worker_limits import authorities_now

AUTHORITY = Path(__file__).parents[1] / "support" / "nobody.pem"


@pytest.mark.parametrize("replace", [os.replace, shutil.copy], ids=["renamed", "written"])
def test_a_file_of_authorities_that_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: object
) -> None:
    file, next_file = tmp_path / "ca.pem", tmp_path / "next.pem"
    file.write_bytes(AUTHORITY.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    before, of_nobody = tls_context(), tls_context(trust_env=False)
    assert tls_context() is before
    next_file.write_bytes(2 * AUTHORITY.read_bytes())
    assert callable(replace)
    replace(next_file, file)
    after = tls_context()
    assert after is not before
    assert tls_context(trust_env=False) is of_nobody
    assert tls_context() is after


def test_a_file_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    assert authorities_now() == ((str(tmp_path / "gone.pem"), None),)
    monkeypatch.delenv("SSL_CERT_FILE")
    assert authorities_now() == ()
