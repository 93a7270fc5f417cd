"""A dialect of somebody else's, as docs/guides/dialects.md shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx2
import pytest

from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.documents import manual
from .conftest import Serve
from .test_own import PAY, TEXT

PAGE = manual("guides/dialects.md")
CODE, METADATA = (
    re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[0] for language in ("python", "toml")
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's dialect, as the module of a package that is installed."""
    package, info = tmp_path / "my_package", tmp_path / "my_package-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "lines.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    [line] = re.findall(r'^(\w+) = "(.*)"$', METADATA, re.MULTILINE)
    (info / "entry_points.txt").write_text(f"[perdure.dialects]\n{line[0]} = {line[1]}\n")
    monkeypatch.syspath_prepend(tmp_path)


def lines_of(answer: httpx2.Response) -> list[JsonObject]:
    assert answer.status_code == 200, answer.text
    return [json.loads(each) for each in answer.text.splitlines()]


@pytest.mark.usefixtures("installed")
async def test_the_dialect_of_the_page(scripted: Scripted, serve_agents: Serve) -> None:
    assert len(CODE.splitlines()) <= 60
    model = scripted(
        lambda request: asks(call("pay", euros=3)) if "Pay" in str(request.body) else says(TEXT)
    )
    async with (
        serve_agents(scripted_agent(model, [PAY]), tools={"pay": lambda euros: "paid"}) as served,
        httpx2.AsyncClient(base_url=f"{served.url}/lines", timeout=30) as http,
    ):
        said, key = {"text": "Hi", "session": served.gateway.task_queue}, {"Idempotency-Key": "1"}
        first = await http.post("/tested", json=said, headers=key)
        lines = lines_of(first)
        assert [each["is"] for each in lines][-2:] == ["token", "done"]
        assert lines[-1]["response"] == TEXT
        again = await http.post("/tested", json=said, headers=key)
        assert again.headers["x-run"] == first.headers["x-run"] == f"{served.gateway.task_queue}/1"
        after = {"after": lines[-2]["position"]}
        assert (
            lines_of(await http.get(f"/runs/{first.headers['x-run']}", params=after)) == lines[-1:]
        )
        async with http.stream("POST", "/tested", json={"text": "Pay"}) as answer:
            async for line in answer.aiter_lines():
                if (shown := json.loads(line))["is"] == "permission_requested":
                    break
        assert (shown["name"], shown["arguments"]) == ("pay", {"euros": 3})
        for body, status in (({}, 422), ({"text": "x", "session": "a/b"}, 422)):
            assert (await http.post("/tested", json=body)).status_code == status
        assert (await http.post("/none", json=said)).json()["kind"] == "unknown_agent"
        assert (await http.get("/runs/none")).json()["kind"] == "not_found"
    assert len(model.requests) == 2
