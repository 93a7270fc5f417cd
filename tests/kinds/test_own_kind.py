"""A kind of tool of somebody else's, as docs/guides/tool-kinds.md shows it."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.common import RawValue

from perdure import RunError, run_input
from perdure.declared_tools import Tool
from perdure.errors import ConfigurationError, LoadError
from perdure.json_types import JsonObject
from perdure.testing import InProcessRun, asks, call, run_in_process, says
from perdure.tools import Asking, KindCall, Offering, ToolKind
from perdure.tools.kind import ENTRY_POINT_GROUP, Kinds

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.documents import manual
from ..support.stage import Stage

PAGE = manual("guides/tool-kinds.md")
CODE, METADATA = (
    re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[0] for language in ("python", "toml")
)
SHOP = {"name": "shop", "kind": "sqlite"}


class Echo(ToolKind):
    """Offers what it is given, and returns what it is called with."""

    def __init__(self, *offerings: Offering) -> None:
        self.offerings = offerings
        self.calls: list[KindCall] = []
        self.is_closed = False

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        return self.offerings

    async def execute(self, call: KindCall) -> Any:
        self.calls.append(call)
        return call.arguments

    async def close(self) -> None:
        self.is_closed = True


class Slow(Echo):
    asks_others = True


def say(name: str = "say", **fields: Any) -> Offering:
    parameters = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    return Offering(name=name, **{"parameters": parameters, **fields})


@pytest.fixture
def shop(tmp_path: Path) -> JsonObject:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE books (title, author)")
        database.execute("INSERT INTO books VALUES ('Emma', 'Austen'), ('Dracula', 'Stoker')")
    database.close()
    return {**SHOP, "options": {"file": str(tmp_path / "shop.db")}}


async def test_the_kind_of_the_page(stage: Stage, scripted: Scripted, shop: JsonObject) -> None:
    assert len(CODE.splitlines()) <= 50
    exec(CODE, names := {"__name__": "tables"})
    model = scripted([asks(call("find_books", column="author", value="Stoker")), says("Dracula.")])
    async with stage.worker(tool_kinds={"sqlite": names["Tables"]()}):
        run = await stage.start(scripted_agent(model, [shop]))
        result = await run.result()
    assert result.output == "Dracula."
    assert result.messages[-2].text == '[{"title":"Dracula","author":"Stoker"}]'
    [offered] = model.requests[0].body["tools"]
    assert offered["function"]["name"] == "find_books"
    assert offered["function"]["parameters"]["required"] == ["column", "value"]


async def test_a_file_that_can_t_be_read_fails_the_start(stage: Stage, scripted: Scripted) -> None:
    exec(CODE, names := {"__name__": "tables"})
    missing = {**SHOP, "options": {"file": "/none/shop.db"}}
    async with stage.worker(tool_kinds={"sqlite": names["Tables"]()}):
        run = await stage.start(
            scripted_agent(scripted([says("never")]), [missing]), missing_tool_grace=0
        )
        with pytest.raises(
            RunError, match=r"tool 'shop' \(kind: sqlite\): '/none/shop.db' can't be read"
        ) as failed:
            await run.result()
        assert failed.value.kind == "configuration"
        run = await stage.start(
            scripted_agent(scripted([says("never")]), [SHOP]), missing_tool_grace=0
        )
        with pytest.raises(RunError, match=r"tool 'shop': options\.file is missing"):
            await run.result()


async def test_a_kind_of_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(group, entries)] = tomllib.loads(METADATA)["project"]["entry-points"].items()
    assert group == ENTRY_POINT_GROUP
    about = tmp_path / "sqlite_perdure-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sqlite-perdure\nVersion: 1.0\n")
    lines = [
        f"[{group}]",
        *(f"{key} = {target}" for key, target in entries.items()),
        "gone = nowhere_perdure:Kind",
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "sqlite_perdure.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    kinds = Kinds()
    assert type(kinds.get("sqlite")).__name__ == "Tables"
    assert kinds.get("sqlite") is kinds.get("sqlite")
    with pytest.raises(
        ConfigurationError, match="adds the tool kind 'gone' can't be imported: No module named"
    ):
        kinds.get("gone")


GLOSSARY = """
from perdure.tools import Offering, ToolKind


class Glossary(ToolKind):
    def record(self, tool, start):
        return start.read(tool.options["file"])

    async def offer(self, tool, asking):
        words = [line.partition(": ")[0] for line in tool.recorded.splitlines()]
        schema = {"type": "object", "properties": {"word": {"enum": words}}, "required": ["word"]}
        return [Offering(name=tool.name, parameters=schema)]

    async def execute(self, call):
        return dict(line.split(": ") for line in call.tool.recorded.splitlines())[call.arguments["word"]]
"""
GLOSSARY_AGENT = """---
name: clerk
tools:
  - {name: glossary, kind: glossary, options: {file: FILE}}
---
user:
What is a run?
"""
ASKED = (asks(call("glossary", word="run")), says("One execution."))


@pytest.fixture
def glossary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of an agent whose tool is of an installed package's kind, and names a file."""
    about = tmp_path / "glossary_perdure-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: glossary-perdure\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[{ENTRY_POINT_GROUP}]\nglossary = glossary_perdure:Glossary"
    )
    (tmp_path / "glossary_perdure.py").write_text(GLOSSARY)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "words.txt").write_text("run: one execution\nturn: one run of a session\n")
    (folder / "clerk.prompty").write_text(GLOSSARY_AGENT.replace("FILE", "words.txt"))
    return folder / "clerk.prompty"


def test_a_kind_records_a_file_in_process_too(glossary: Path) -> None:
    exec(GLOSSARY, names := {"__name__": "glossary"})
    (glossary.parent / "second.prompty").write_text(
        glossary.read_text().replace("kind: glossary", "kind: words")
    )
    for file, kinds in (
        (glossary, {}),
        (glossary.with_name("second.prompty"), {"words": names["Glossary"]()}),
    ):
        result = run_in_process(file, model=list(ASKED), tool_kinds=kinds)
        assert tool_texts(result.messages) == ["one execution"]


def test_a_kind_reads_no_file_outside_the_agent_s_folder(glossary: Path) -> None:
    (glossary.parent.parent / "words.txt").write_text("run: one execution")
    glossary.write_text(GLOSSARY_AGENT.replace("FILE", "../words.txt"))
    with pytest.raises(
        LoadError, match=r"tool 'glossary': \.\./words\.txt resolves outside allowed roots"
    ):
        run_input(glossary)


async def test_what_is_offered_is_asked_once_and_recorded(stage: Stage, scripted: Scripted) -> None:
    kind = Slow(say(details={"path": "/say"}, description="Says it."))
    model = scripted([asks(call("say", text="a")), asks(call("say", text="b")), says("done")])
    agent = scripted_agent(model, [{"name": "echo", "kind": "slow"}])
    async with stage.worker(tool_kinds={"slow": kind}):
        run = await stage.start(agent)
        await run.result()
    assert [each.details for each in kind.calls] == [{"path": "/say"}] * 2
    assert kind.is_closed
    history = await stage.client.get_workflow_handle(run.id).fetch_history()
    started = [event.activity_task_scheduled_event_attributes for event in history.events]
    types = [each.activity_type.name for each in started if each.activity_type.name]
    assert types == [
        *("perdure.inventory", "perdure.call_model", "perdure.tool.say"),
        *("perdure.call_model", "perdure.tool.say", "perdure.call_model"),
    ]


async def test_bound_parameters_are_the_run_s(scripted: Scripted) -> None:
    kind = Echo(say())
    tool = {"name": "echo", "kind": "echo", "bindings": {"text": {"input": "who"}}}
    agent = scripted_agent(scripted([]), [tool], inputs=[{"name": "who", "kind": "string"}])
    model = [asks(call("say", text="model")), says("done")]
    run = InProcessRun(agent, [], inputs={"who": "caller"}, tool_kinds={"echo": kind}, model=model)
    await run.run()
    assert [each.arguments for each in kind.calls] == [{"text": "caller"}]


@pytest.mark.parametrize(
    ("offerings", "problem"),
    [
        ([say("a b")], r"offers a function 'a b': expected letters, digits"),
        ([say("x" * 65)], "at most 64 characters"),
        ([say(details={"text": "x" * 70_000})], "takes 70,.* bytes: at most 65,536"),
        ([say(details={"when": object()})], "has no JSON form"),
        (
            [say(f"f{n}", details={"text": "x" * 60_000}) for n in range(20)],
            "bytes together, at most 1,048,576",
        ),
    ],
)
async def test_offers_that_can_t_be(
    offerings: list[Offering], problem: str, scripted: Scripted
) -> None:
    agent = scripted_agent(scripted([]), [{"name": "echo", "kind": "echo"}])
    run = InProcessRun(agent, [], tool_kinds={"echo": Echo(*offerings)}, model=[says("never")])
    with pytest.raises(RunError, match=problem):
        await run.run()


async def test_two_tools_that_offer_one_name(scripted: Scripted) -> None:
    agent = scripted_agent(
        scripted([]), [{"name": "one", "kind": "echo"}, {"name": "two", "kind": "echo"}]
    )
    kind, model = (
        Echo(say()),
        [asks(call("say", text="1"), call("two_say", text="2")), says("done")],
    )
    await InProcessRun(agent, [], tool_kinds={"echo": kind}, model=model).run()
    assert [(each.tool.name, each.name) for each in kind.calls] == [
        ("one", "say"),
        ("two", "two_say"),
    ]


async def test_a_worker_with_a_dynamic_activity_of_its_own(
    stage: Stage, scripted: Scripted
) -> None:
    @activity.defn(dynamic=True)
    async def anything(arguments: Sequence[RawValue]) -> str:
        raise AssertionError("not for tools")

    def look(text: str) -> str:
        return text.upper()

    model = scripted([asks(call("look", text="a"), call("say", text="b")), says("done")])
    agent = scripted_agent(model, ["look", {"name": "echo", "kind": "echo"}])
    async with stage.worker([look], tool_kinds={"echo": Echo(say())}, activities=[anything]):
        result = await (await stage.start(agent)).result()
    assert tool_texts(result.messages) == [
        "A",
        '{"text":"b"}',
    ]
