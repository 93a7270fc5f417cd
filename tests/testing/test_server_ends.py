"""The scripted model ends its connections when it closes, and waits no longer than asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure.testing import ScriptedModel, ScriptedReply


def test_closing_gives_up_answers_under_way() -> None:
    with ScriptedModel([ScriptedReply(delay=30)]) as model:
        client = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import urllib.request as u; u.urlopen('{model.openai_endpoint}/responses', "
                f"b'{{}}')",
            ],
            stderr=subprocess.DEVNULL,
        )
        model.wait_until(lambda: len(model.requests) == 1)
    assert client.wait(5) == 1
    assert not model.requests[0].aborted
    with pytest.raises(RuntimeError, match="not running"):
        _ = model.url
