"""What a program gives as images, files and recordings: paths, bytes, open files; and what it may
not.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import RenderError

PNG = b"\x89PNG\r\n\x1a\n...."
CONTENT = base64.b64encode(PNG).decode()
AGENT = """---
inputs:
  photo: {kind: image}
  paper: {kind: file}
---
user:
{{photo}}{{paper}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "a.prompty").write_text(AGENT)
    (folder / "photo.png").write_bytes(PNG)
    (tmp_path / "outside.png").write_bytes(PNG)
    return folder


GIVEN: dict[str, Callable[[Path], Any]] = {
    "Path": lambda folder: folder.parent / "outside.png",
    "bytes": lambda folder: PNG,
    "bytearray": lambda folder: bytearray(PNG),
    "an open file": lambda folder: (folder / "photo.png").open("rb"),
    "base64": lambda folder: CONTENT,
    "a map of base64": lambda folder: {"source": CONTENT, "mediaType": "image/png"},
    "a map of a Path": lambda folder: {"source": folder / "photo.png", "detail": "low"},
    "a part": lambda folder: perdure.ImagePart.from_bytes(PNG),
    "a list": lambda folder: [folder / "photo.png"],
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_what_is_taken(given: Callable[[Path], Any], folder: Path) -> None:
    value = given(folder)
    [message] = perdure.prepare(
        perdure.load(folder / "a.prompty"), {"photo": value, "paper": "https://x/y.pdf"}
    )
    assert [part.kind for part in message.parts] == ["image", "file"]
    assert message.parts[0].source == CONTENT  # type: ignore[union-attr]
    if hasattr(value, "close"):
        value.close()


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a path as text": (
        lambda folder: "photo.png",
        r"'photo.png' is neither .*give pathlib.Path\('photo.png'\)",
    ),
    "another kind of file": (
        lambda folder: folder / "a.prompty",
        "'a.prompty' has an unknown type",
    ),
    "a missing Path": (
        lambda folder: folder / "none.png",
        r"the file can't be read \(No such file",
    ),
    "a folder": (lambda folder: folder, "is not a regular file"),
    "a file URL": (lambda folder: "file:///etc/passwd", "is on one machine"),
    "a data: URI without base64": (lambda folder: "data:text/plain,hi", "has no base64"),
    "text as bytes": (lambda folder: b"hello", "has an unknown type"),
    "a file that is open as text": (
        lambda folder: (folder / "a.prompty").open(),
        "open in mode 'rb'",
    ),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("given", "text"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(given: Callable[[Path], Any], text: str, folder: Path) -> None:
    with pytest.raises(RenderError, match=f"^input 'photo': .*{text}"):
        perdure.prepare(perdure.load(folder / "a.prompty"), {"photo": given(folder)})


def test_the_input_of_a_run_holds_the_content_not_the_path(folder: Path) -> None:
    sent = perdure.run_input(folder / "a.prompty", {"photo": folder / "photo.png"})
    assert sent["messages"][0]["parts"][0]["source"] == CONTENT
