"""§2.10: `${env:…}` and `${file:…}`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.errors import LoadError
from perdure.prompty.load import load, load_dict

from .conftest import WriteFile


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SET", "value")
    monkeypatch.setenv("PERDURE_EMPTY", "")
    monkeypatch.setenv("PERDURE_REFERENCE", "${env:PERDURE_SET}")
    monkeypatch.delenv("PERDURE_UNSET", raising=False)


def resolved(value: Any) -> Any:
    return (load_dict({"metadata": {"it": value}}).metadata or {})["it"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("${env:PERDURE_SET}", "value", id="set"),
        pytest.param("${env:PERDURE_EMPTY:default}", "", id="set to nothing"),
        pytest.param("${env:PERDURE_SET:default}", "value", id="set, with default"),
        pytest.param("${env:PERDURE_UNSET:default}", "default", id="default"),
        pytest.param(
            "${env:PERDURE_UNSET:https://a:80/}", "https://a:80/", id="default with colons"
        ),
        pytest.param("${env:PERDURE_UNSET: }", " ", id="a blank is a default"),
        pytest.param(
            "${env:PERDURE_REFERENCE}", "${env:PERDURE_SET}", id="a value is not resolved again"
        ),
        pytest.param("pre ${env:PERDURE_SET}", "pre ${env:PERDURE_SET}", id="only whole strings"),
        pytest.param("${env:PERDURE_SET} ", "${env:PERDURE_SET} ", id="no blank around"),
        pytest.param("${vault:a/b}", "${vault:a/b}", id="unknown protocol"),
        pytest.param("${PERDURE_SET}", "${PERDURE_SET}", id="no protocol"),
        pytest.param(
            ["${env:PERDURE_SET}", {"a": ["${env:PERDURE_SET}"]}],
            ["value", {"a": ["value"]}],
            id="nested",
        ),
        pytest.param({"${env:PERDURE_SET}": 1}, {"${env:PERDURE_SET}": 1}, id="keys are no values"),
    ],
)
def test_environment(written: Any, expected: Any) -> None:
    assert resolved(written) == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param(
            "a.json", '{"a": [1, null, "${env:PERDURE_SET}"]}', {"a": [1, None, "value"]}, id="JSON"
        ),
        pytest.param("a.yaml", "a: ${env:PERDURE_SET}", {"a": "value"}, id="YAML"),
        pytest.param("a.yml", "- 2024-01-31", ["2024-01-31"], id="yml"),
        pytest.param("A.JSON", "[1]", [1], id="the suffix in capitals"),
        pytest.param("a.txt", "${env:PERDURE_SET}", "${env:PERDURE_SET}", id="a text is kept"),
        pytest.param("sub/dir/a.md", "text\n", "text\n", id="below the folder"),
        pytest.param("a.json", "\ufeff[1]", [1], id="byte order mark"),
        pytest.param("a.yaml", "", None, id="empty YAML"),
    ],
)
def test_file(write: WriteFile, name: str, content: str, expected: Any) -> None:
    write(content, name)
    agent = load(write(f"---\nmetadata:\n  it: ${{file:{name}}}\n---\n"))
    assert agent.metadata == {"it": expected}


def test_files_refer_to_files_from_the_prompts_folder(write: WriteFile) -> None:
    write('{"b": "${file:sub/b.yaml}"}', "sub/a.json")
    write("c: ${file:c.txt}", "sub/b.yaml")
    write("end", "c.txt")
    assert load(write("---\nmetadata: ${file:sub/a.json}\n---\n")).metadata == {"b": {"c": "end"}}


@pytest.mark.parametrize(
    "reference",
    [
        "../secret.json",
        "sub/../../secret.json",
        "{outside}/secret.json",
        "/etc/passwd",
        "link.json",
        "linked/secret.json",
    ],
)
def test_containment(write: WriteFile, tmp_path: Path, reference: str) -> None:
    write('{"kind": "key"}', "secret.json")
    file = write("", "app/agent.prompty")
    (tmp_path / "app" / "sub").mkdir()
    (tmp_path / "app" / "link.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "app" / "linked").symlink_to(tmp_path)
    file.write_text(
        f"---\nmodel:\n  connection: ${{file:{reference.format(outside=tmp_path)}}}\n---\n"
    )
    with pytest.raises(LoadError, match="resolves outside allowed roots") as caught:
        load(file)
    assert caught.value.field == "model.connection"


def test_allowed_roots(write: WriteFile, tmp_path: Path) -> None:
    write("yes", "shared/a.txt")
    file = write("---\nmetadata: {it: '${file:../shared/a.txt}'}\n---\n", "app/agent.prompty")
    assert load(file, allowed_file_roots=[tmp_path / "shared"]).metadata == {"it": "yes"}
    assert load(file, allowed_file_roots=str(tmp_path / "shared")).metadata == {"it": "yes"}
    with pytest.raises(LoadError, match="resolves outside allowed roots"):
        load(file, allowed_file_roots=[tmp_path / "share"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "is not valid JSON: Expecting property name"),
        ("a.json", "[NaN]", "NaN is not a JSON value"),
        ("a.json", "[" * 5000, "is not valid JSON"),
        ("a.json", "[" * 100 + "]" * 100, "nested deeper than 64 levels"),
        ("a.json", '"\\ud800"', "half of a surrogate pair"),
        ("a.json", "[1e999]", "is too large a number"),
        ("a.yaml", "a: 1\nb: c: d", "a.yaml:2: mapping values are not allowed"),
        ("a.json", '"${file:a.json}"', "a.json refers to itself"),
    ],
)
def test_wrong_content(write: WriteFile, name: str, content: str, message: str) -> None:
    write(content, name)
    with pytest.raises(LoadError) as caught:
        load(write(f"---\nmetadata: ${{file:{name}}}\n---\n"))
    assert message in str(caught.value)
    assert caught.value.line == 2


def test_files_that_multiply_themselves(write: WriteFile) -> None:
    for level in range(8):
        write("[" + ", ".join([f'"${{file:{level + 1}.json}}"'] * 12) + "]", f"{level}.json")
    write('["end"]', "8.json")
    with pytest.raises(LoadError, match="hold too many values"):
        load(write("---\nmetadata: {it: '${file:0.json}'}\n---\n"))


def test_a_missing_file_outside_is_not_told_from_one_that_exists(write: WriteFile) -> None:
    with pytest.raises(LoadError, match="resolves outside allowed roots"):
        load(write("---\nmodel:\n  connection: ${file:../none.json}\n---\n"))
