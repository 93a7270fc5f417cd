"""What will not work is told before it is tried: by `validate`, by `run`, and by `start_run` as a
typed error.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from temporalio.client import Client

from perdure.cli.agent_file import read_inputs
from perdure.cli.entry import run
from perdure.cli.problems import UsageProblem
from perdure.client import start_run
from perdure.errors import InvokerError, LoadError
from perdure.prompty.load import load, load_dict

HEAD = "---\nname: a\nmodel: {id: m}\n"
BODY = "---\nuser:\nhi\n"


def model(fields: str) -> str:
    return f"---\nname: a\nmodel:\n  id: m\n  {fields}\n{BODY}"


def tool(fields: str) -> str:
    return f"{HEAD}tools:\n  - {fields}\n{BODY}"


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "a misspelt provider": (
        model("provider: opnai"),
        "a.prompty:5: error: model.provider: No executor registered for key: opnai (did you mean "
        "'openai'?). Expected anthropic, azure, foundry, openai",
    ),
    "a provider that nobody has": (
        model("provider: nobody"),
        "a.prompty:5: error: model.provider: No executor registered for key: nobody. Expected "
        "anthropic, azure",
    ),
    "a misspelt API type": (
        model("apiType: respones"),
        "a.prompty:5: error: model.apiType: Unsupported API type: respones (did you mean "
        "'responses'?). Expected chat or responses with the provider 'openai'",
    ),
    "an API type of another provider": (
        model("{provider: anthropic, apiType: responses}")
        .replace("id: m\n  {", "{id: m, ")
        .replace("model:\n ", "model:"),
        "a.prompty:3: error: model.apiType: Unsupported API type: responses. Expected chat with "
        "the provider",
    ),
    "an embedding model": (
        model("apiType: embedding"),
        "a.prompty:5: error: model.apiType: Unsupported API type: embedding. Expected chat or "
        "responses with",
    ),
    "an image model": (
        model("apiType: image"),
        "a.prompty:5: error: model.apiType: Unsupported API type: image. Expected chat or "
        "responses with the provider",
    ),
    "a model without an id": (
        f"---\nname: a\nmodel:\n  provider: openai\n{BODY}",
        "a.prompty:3: error: model.id: is missing: expected a model's id, such as gpt-4.1-mini",
    ),
    "a model with an empty id": (
        f"---\nname: a\nmodel: {{provider: anthropic, id: ''}}\n{BODY}",
        "a.prompty:3: error: model.id: is missing: expected a model's id",
    ),
    "another model without an id": (
        model("fallback: [{provider: anthropic}]"),
        "a.prompty:5: error: model.fallback[0].id: is missing: expected a model's id",
    ),
    "an MCP server that can't be found": (
        tool("{name: fs, kind: mcp, serverName: s}"),
        "a.prompty:5: error: tools[0]: expected either connection.endpoint (streamable HTTP) or",
    ),
    "a kind of tool in capitals": (
        tool("{name: fs, kind: MCP}"),
        "a.prompty:5: error: tools[0].kind: nothing executes tools of kind 'MCP' here (did you "
        "mean 'mcp'?)",
    ),
    "a misspelt kind of tool": (
        tool("{name: fs, kind: functoin}"),
        "a.prompty:5: error: tools[0].kind: nothing executes tools of kind 'functoin' here (did "
        "you mean 'function'?)",
    ),
    "a sub-agent that is missing": (
        tool("{name: sub, kind: prompty, path: somwhere.prompty}"),
        "a.prompty:5: error: tools[0].path: there is no file 'somwhere.prompty' in",
    ),
    "a sub-agent that is wrong": (
        tool("{name: sub, kind: prompty, path: bad.prompty}"),
        "a.prompty:5: error: tools[0].path: the sub-agent is wrong: bad.prompty:2: name: expected "
        "a string, got 5",
    ),
    "random bytes": (
        bytes(range(256)),
        "a.prompty:2: error: the file is not UTF-8 text: invalid start byte at byte 128",
    ),
    "UTF-16": ((HEAD + BODY).encode("utf-16"), "Expected a text file in UTF-8"),
}
DOUBTED = {
    "nmae: a": "a.prompty:4: warning: nmae: unknown property 'nmae' has no effect and is kept as "
    "metadata (did you mean 'name'?)",
    "model: {id: m, optoins: {}}": (
        "model.optoins: unknown property 'optoins' has no effect (did you mean 'options'?)"
    ),
    "model: {id: m, options: {temprature: 1}}": "model.options.temprature: unknown property "
    "'temprature' has no effect (did you mean 'temperature'?)",
    "model: {id: m, what: 1}": (
        "model.what: unknown property 'what' has no effect. Expected id, provider, apiType"
    ),
    "tools: [{name: f, paramters: []}]": "tools[0].paramters: unknown property 'paramters' has no "
    "effect (did you mean 'parameters'?)",
    "inputs: [{name: x, knid: string}]": (
        "inputs[0].knid: unknown property 'knid' has no effect (did you mean 'kind'?)"
    ),
    "template: {fromat: jinja2}": (
        "template.fromat: unknown property 'fromat' has no effect (did you mean 'format'?)"
    ),
    "inputs: {city: x}": (
        "a.prompty:7: warning: the variable 'cty' is not a declared input (did you mean 'city'?)"
    ),
    "model: {connection: {endpoint: 'http://localhost:1/v1'}}": (
        "warning: model.id: is missing: expected a model's id"
    ),
    "model: {provider: azure}": "warning: model.id: is missing: expected a model's id",
    "tools: [{name: f, kind: own}]": (
        "warning: tools[0].kind: nothing executes tools of kind 'own' here. Expected"
    ),
}
IN_ALL_TEXTS = ("Expected", "expected", "did you mean", "save it as")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    (tmp_path / "bad.prompty").write_text("---\nname: 5\nmodel: m\n---\nuser:\n")
    (tmp_path / "code.py").write_text("def f():\n    return 1\n")
    (tmp_path / "folder.prompty").mkdir()
    return tmp_path


def write(content: str | bytes) -> None:
    Path("a.prompty").write_bytes(content if isinstance(content, bytes) else content.encode())


def test_a_run_refuses_a_function_that_can_not_be_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("tools.py").write_text("class Db: ...\ndef look(db: Db) -> str: ...\n")
    write(tool("{name: look, kind: function}"))
    assert run(["run", "a.prompty", "--tools", "tools.py:look"]) == 1
    told = capsys.readouterr().err
    assert (
        "'db' is a Db, which has no JSON form that a model could write: give the worker "
        "resources={Db: …}" in told
    )
    assert not Path("home").exists(), "something was started"


def test_all_that_is_wrong_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    tools = (
        "tools:\n  - {name: look, kind: functin}\n  - {name: pay, kind: function, perdure: "
        "{approval: sometimes}}\n"
    )
    settings = "metadata: {perdure: {maxIterations: many}}\n"
    inputs = "inputs: [{name: x, kind: strng}]\n"
    write(f"---\nname: a\nmodel: {{id: m, provider: opnai}}\n{inputs}{tools}{settings}{BODY}")
    assert run(["run", "a.prompty"]) == 1
    *errors, last = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert [line.split(": ")[2] for line in errors] == [
        "model.provider",
        "inputs[0].kind",
        "tools[0].kind",
        "tools[1].perdure.approval",
        "metadata.perdure.maxIterations",
    ]
    assert last.startswith("perdure: no run was started: correct 'a.prompty' first")


@pytest.mark.parametrize("case", REFUSED)
def test_validate_and_run_refuse(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    content, text = REFUSED[case]
    write(content)
    assert run(["validate", "a.prompty"]) == 1
    told = capsys.readouterr().err
    assert text in told
    assert any(word in told for word in IN_ALL_TEXTS)
    assert run(["run", "a.prompty"]) == 1
    told = capsys.readouterr().err
    assert text.partition("error: ")[2] in told
    assert "Traceback" not in told
    assert not Path("home").exists(), "something was started"


@pytest.mark.parametrize("line", DOUBTED)
def test_validate_and_run_tell_what_has_no_effect(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    write(
        "---\nname: a\n"
        + ("" if line.startswith("model") else "model: m\n")
        + f"{line}\n---\nuser:\n{{{{ cty }}}}\n"
    )
    assert run(["validate", "a.prompty"]) == 0
    assert DOUBTED[line] in capsys.readouterr().err


def test_a_run_says_so_and_goes_on(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    task_queue: str,
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    write("---\nname: a\nmodel: {id: m, optoins: {}}\n---\nuser:\n{{ cty }}\n")
    detached = ["run", "a.prompty", "--detach", "--task-queue", task_queue]
    assert run(detached) == 0
    told = capsys.readouterr()
    assert "a.prompty:3: warning: model.optoins: unknown property" in told.err
    assert "a.prompty:6: warning: the variable 'cty' is not a declared input" in told.err
    assert run([*detached, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_workers_elsewhere_may_have_what_is_missing_here(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    task_queue: str,
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    write(tool("{name: fs, kind: soap, serverName: s}"))
    assert run(["run", "a.prompty", "--detach", "--task-queue", task_queue]) == 0
    assert (
        "warning: tools[0].kind: nothing executes tools of kind 'soap' here"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            "code.py",
            "'code.py' is Python code. Expected an agent's .prompty file; tools: --tools code.py",
        ),
        (
            "folder.prompty",
            "'folder.prompty' is a folder. Expected an agent's .prompty file; in there: none",
        ),
        (".", "'.' is a folder. Expected an agent's .prompty file; in there: bad.prompty"),
        ("nowhere.prompty", "there is no file 'nowhere.prompty' in"),
    ],
)
def test_what_is_no_agent(
    command: str, given: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, given]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        (model("provider: opnai"), InvokerError, "did you mean 'openai'"),
        (
            f"---\nmodel: {{provider: openai}}\n{BODY}",
            LoadError,
            r"model\.id: is missing: expected a model's id",
        ),
        (model("apiType: embedding"), LoadError, "model.apiType: Unsupported API type: embedding"),
        (model("apiType: chatt"), LoadError, "did you mean 'chat'"),
        (bytes(range(256)), LoadError, "a.prompty:2: the file is not UTF-8 text"),
    ],
)
async def test_start_run_raises_typed_errors(
    content: str | bytes, error: type[Exception], text: str, client: Client, task_queue: str
) -> None:
    write(content)
    with pytest.raises(error, match=text):
        await start_run(client, "a.prompty", task_queue=task_queue)


async def test_start_run_refuses_python_code_and_folders(client: Client) -> None:
    with pytest.raises(LoadError, match=r"code\.py: the file is Python code\. Expected properties"):
        await start_run(client, "code.py")
    with pytest.raises(LoadError, match="the file is not a regular file"):
        await start_run(client, "folder.prompty")
    with pytest.raises(FileNotFoundError, match="Prompty file not found"):
        await start_run(client, "nowhere.prompty")


def test_a_handler_for_the_kind_counts(capsys: pytest.CaptureFixture[str]) -> None:
    from perdure.tools.kind import clear_tool_handlers, register_tool_handler

    write(tool("{name: fs, kind: mcp, serverName: s}"))
    register_tool_handler("mcp", lambda tool, arguments, agent, inputs: "done")
    try:
        assert run(["validate", "a.prompty"]) == 0
    finally:
        clear_tool_handlers()


def test_a_provider_of_an_installed_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "acmecorp_perdure.py").write_text(
        "def provider(key, api_type):\n    if api_type != 'talk':\n        raise ValueError\n    "
        "return object()\n"
    )
    about = tmp_path / "acmecorp_perdure-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acmecorp-perdure\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[perdure.providers]\nacmecorp = acmecorp_perdure:provider\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    write(
        model("{provider: acmecorp, apiType: talk}")
        .replace("id: m\n  {", "{id: m, ")
        .replace("model:\n ", "model:")
    )
    assert run(["validate", "a.prompty"]) == 0
    write(model("provider: acmecrop"))
    assert run(["validate", "a.prompty"]) == 1
    assert "did you mean 'acmecorp'" in capsys.readouterr().err


any_bytes = st.one_of(
    st.binary(max_size=80),
    st.binary(max_size=60).map(lambda content: b"---\n" + content + b"\n---\n" + content),
    st.text(max_size=60).map(str.encode),
    st.sampled_from(
        [b"[" * 100_000, b"---\n" + b"[" * 100_000, b"---\n---\n" + b"{{ (" * 5_000, b"\xff\xfe---"]
    ),
)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(content=any_bytes)
def test_no_bytes_end_in_a_traceback(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    write(content)
    assert run(["validate", "a.prompty"]) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err
    with contextlib.suppress(LoadError):
        load("a.prompty")


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    content=any_bytes,
    kind=st.sampled_from(["string", "integer", "array", "object", "union", "image", "thread"]),
)
def test_no_bytes_are_an_unforeseen_input(content: bytes, kind: str) -> None:
    agent = load_dict({"inputs": {"x": {"kind": kind}}, "instructions": "user:\n{{ x }}"})
    Path("x.bin").write_bytes(content)
    with contextlib.suppress(UsageProblem):
        read_inputs(agent, ["x=@x.bin"], None)
    with contextlib.suppress(UsageProblem):
        read_inputs(agent, [], Path("x.bin"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--input", "x=@raw.bin"],
            "not UTF-8 text (byte 0xff at position 1). Expected text; an input for other data",
        ),
        (["--input", "x=@/"], "the file can't be read (Is a directory)"),
        (["--input", "n=true"], "True is not of type 'integer'"),
        (
            ["--input", "n=@deep.json"],
            "expected a value of kind integer as JSON (nested too deeply)",
        ),
        (
            ["--inputs-json", "deep.json"],
            "--inputs-json 'deep.json': not valid JSON: nested too deeply",
        ),
        (["--inputs-json", "raw.bin"], "--inputs-json 'raw.bin': not valid JSON"),
        (["--inputs-json", "."], "--inputs-json '.': the file can't be read (Is a directory)"),
        (["--input", "xx=1"], "the agent has no input 'xx', only x, n"),
    ],
)
def test_what_is_no_input(
    arguments: list[Any], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("raw.bin").write_bytes(b"a\xff\0")
    Path("deep.json").write_text("[" * 100_000)
    write(
        f"{HEAD}inputs: {{x: {{kind: string}}, n: {{kind: integer}}}}\n---\nuser:\n{{{{ x }}}}{{{{ "
        f"n }}}}\n"
    )
    assert run(["run", "a.prompty", *arguments]) == 2
    assert text in capsys.readouterr().err
    assert not Path("home").exists()


def test_the_options_that_a_worker_needs_come_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_ALLOW_COMMANDS", raising=False)
    write(tool("{name: fs, kind: mcp, serverName: s, options: {command: npx}}"))
    assert run(["validate", "a.prompty"]) == 0
    told = capsys.readouterr().err.rstrip()
    assert told.endswith("perdure worker --allow-commands npx")
    assert "unless its owner allows it" in told
