"""The dialect that docs/reference/providers.md shows for a server which perdure does not know."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from perdure.cli.entry import run
from perdure.messages import Message
from perdure.providers import WireDialect, provider_for, register_dialect

from ..support.documents import manual
from .servers import SERVERS
from .servers.wires import ChatServer
from .test_outgoing_any_server import TOOLS, Move, moved

PAGE = manual("reference/providers.md")
SECTION = PAGE.partition("### A server that is not in the table")[2]
CODE, METADATA = (
    re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)[0]
    for language in ("python", "toml")
)


class Lumen(ChatServer):
    """What the page says of the server."""

    endpoint = "https://llm.lumen.example/v1"
    ids = "lm:{n:04d}"
    takes = "lm:[0-9]{1,9}"
    gives = {"trace": "{mark}"}
    needs = {"trace": "none"}
    wants_back = "calls"
    refuses = ("presence_penalty", "max_completion_tokens")


@pytest.fixture
def lumen() -> None:
    """The page's file, as a worker imports it."""
    assert len(CODE.splitlines()) <= 60
    exec(compile(CODE, "lumen.py", "exec"), {})


@pytest.mark.usefixtures("lumen")
@pytest.mark.parametrize("other", SERVERS, ids=lambda server: server.__name__.lower())
def test_a_conversation_moves_to_it_and_back(other: type[ChatServer]) -> None:
    for begins_with_user in (True, False):
        assert moved(other(), Lumen(), begins_with_user) == []
        assert moved(Lumen(), other(), begins_with_user) == []


def test_ids_of_a_form_of_its_own_are_unique_and_the_same_in_each_request() -> None:
    register_dialect(
        WireDialect(name="short", ids="[ab]+", derive_id=lambda nine: "ab"[int(nine, 36) % 2])
    )
    agent = Lumen().agent(tools=TOOLS)
    assert agent.model
    assert agent.model.options
    agent.model.options.dialect = "short"
    move = Move(begins_with_user=True)
    move.ask(SERVERS[0](), SERVERS[0]().agent(tools=TOOLS), ("look", "{}"), ("look", "{}"))
    bodies = [
        provider_for(agent).to_request(agent, [*move.messages, *more])
        for more in ([], [Message.user("Hm?")])
    ]
    ids = [Lumen().ids_in(json.loads(json.dumps(body))) for body in bodies]
    assert sorted(ids[0]) == ["a", "b"]
    assert ids[0] == ids[1]


def test_a_dialect_that_makes_too_few_ids_is_an_error_and_no_endless_loop() -> None:
    register_dialect(WireDialect(name="few", ids="one", derive_id=lambda nine: "one"))
    agent = Lumen().agent(tools=TOOLS)
    assert agent.model
    assert agent.model.options
    agent.model.options.dialect = "few"
    move = Move(begins_with_user=True)
    move.ask(SERVERS[0](), SERVERS[0]().agent(tools=TOOLS), ("look", "{}"), ("look", "{}"))
    with pytest.raises(ValueError, match="makes too few ids: 'one' again after"):
        provider_for(agent).to_request(agent, move.messages)


def test_an_installed_package_has_a_dialect(tmp_path: Path) -> None:
    """In the group that the page names, which is not the gateway's; one replaces the table's of the
    same name.
    """
    [(group, entries)] = tomllib.loads(METADATA)["project"]["entry-points"].items()
    about = tmp_path / "lumen-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lumen\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\nlumen = {entries['lumen']}\n")
    code = (
        "from perdure.providers import WireDialect\n\nLUMEN = WireDialect(name='mistral', "
        "ids='own')\n"
    )
    (tmp_path / "lumen.py").write_text(code)
    shown = (
        "from perdure.gateway.app import dialects; from perdure.providers.dialects import "
        "known_dialects as known; print(known()['mistral'].ids, known()['groq'].name, 'mistral' in "
        "[each.name for each in dialects()])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", shown],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "own groq False\n"


def test_a_dialect_that_nobody_knows_is_named_before_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.prompty"
    file.write_text("---\nname: a\nmodel: {id: m, options: {dialect: mistrl}}\n---\nuser:\nhi\n")
    run(["validate", str(file)])
    said = "".join(capsys.readouterr())
    assert (
        "warning: model.options.dialect: there is no dialect 'mistrl' (did you mean 'mistral'?)"
        in said
    )
