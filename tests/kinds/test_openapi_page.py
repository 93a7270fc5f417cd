"""The example of docs/guides/tools-openapi.md works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure.prompty.check.check import check
from perdure.prompty.load import load
from perdure.testing import asks, call, says

from ..support.agents import Scripted, tool_texts
from ..support.documents import manual
from ..support.openapi_service import served
from ..support.stage import Stage

PAGE = manual("guides/tools-openapi.md")
FILE, CODE = (
    re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1] for language in ("yaml", "python")
)  # type: ignore[index]


async def test_the_page(
    stage: Stage, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBRARY_KEY", "library-key-0123456789")
    names: dict[str, object] = {"__name__": "library"}
    exec(CODE, names)
    lent, missing = (
        call("lendBook", "one", number=2, reader="Zoë"),
        call("lendBook", "two", number=3, reader="Zoë"),
    )
    model = scripted([asks(call("findBooks", title="em")), asks(lent, missing), says("done")])
    file = tmp_path / "librarian.prompty"
    with served(names["app"]) as url:
        written = FILE.replace("http://127.0.0.1:8000", url)
        connection = f"model:\n  connection: {{kind: key, endpoint: '{model.openai_endpoint}'}}\n"
        file.write_text(written.replace("model:\n", connection))
        assert [problem for problem in check(file) if problem.severity == "error"] == []
        async with stage.worker():
            result = await (await stage.start(load(file))).result()
    assert tool_texts(result.messages) == [
        '{"1":"Emma"}',
        '"Zoë has Dracula"',
        "Error: Tool 'lendBook' failed: POST /books/{number}/loans answered 404 Not Found: "
        '{"detail":"no such book"}',
    ]
