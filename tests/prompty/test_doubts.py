"""What loading accepts is warned of where hardly anybody means it, and refused with `strict`."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import perdure

HONEST = """---
model: {id: m, options: {temperature: 0}}
inputs:
  - {name: question, kind: string}
---
user:
{{question}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.prompty"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (HONEST.replace("temperature", "temprature"), r"a\.prompty:2: model\.options\.temprature.*temperature"),
        (HONEST.replace("inputs:", "imputs:"), r"a\.prompty:3: imputs: .*inputs"),
        (
            HONEST.replace("{{question}}", "{{qestion}}"),
            r"a\.prompty:7: .*'qestion' is not a declared input .*'question'",
        ),
    ],
)
def test_it_is_a_warning_and_with_strict_an_error(file: Path, written: str, said: str) -> None:
    file.write_text(written)
    with pytest.warns(perdure.PromptyWarning, match=said):
        agent = perdure.load(file)
    assert agent.model is not None
    with pytest.warns(perdure.PromptyWarning, match=said):
        perdure.run_input(file, {"question": "?"})
    with pytest.raises(perdure.LoadError, match=said):
        perdure.load(file, strict=True)


def test_an_honest_file_is_loaded_in_silence(file: Path) -> None:
    file.write_text(HONEST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert perdure.load(file, strict=True).inputs
