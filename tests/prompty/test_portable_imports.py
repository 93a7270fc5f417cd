"""What a workflow imports of the asset brings no parser and no template engine along."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["agents", "arguments", "prompty.portable", "prompty.parse"])
def test_light_modules(module: str) -> None:
    code = (
        f"import sys, perdure.{module}; print([name for name in ('yaml', 'jinja2') if name in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
