"""§2.1: frontmatter and body."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.errors import LoadError
from perdure.prompty.load import load

from .conftest import WriteFile


@pytest.mark.parametrize(
    ("text", "name", "instructions"),
    [
        pytest.param("---\nname: test\n---\nHello world", "test", "Hello world", id="plain"),
        pytest.param("---\n---\nBody only", "", "Body only", id="empty frontmatter"),
        pytest.param("---\n# a remark\n---\nBody", "", "Body", id="frontmatter of remarks"),
        pytest.param("  ---\nname: test\n---\nBody", "test", "Body", id="blanks before the opener"),
        pytest.param(
            "\n\n---\nname: test\n---\nBody", "test", "Body", id="blank lines before the opener"
        ),
        pytest.param(
            "Just text\n---\nmore", "", "Just text\n---\nmore", id="no opener: all is body"
        ),
        pytest.param(
            "--- no\nname: test\n---\n",
            "",
            "--- no\nname: test\n---\n",
            id="an opener stands alone",
        ),
        pytest.param("+++\nname: test\n+++\nBody", "test", "Body", id="pluses"),
        pytest.param("+++\nname: test\n---\nBody", "test", "Body", id="delimiters need not match"),
        pytest.param(
            "---\nname: test\n--- \t\nBody", "test", "Body", id="blanks after a delimiter"
        ),
        pytest.param("---\nname: test\n---", "test", "", id="no body (§18-1)"),
        pytest.param("---\nname: test\n---\n", "test", "", id="empty body (§18-1)"),
        pytest.param(
            "---\nname: x --- y\n---\nBody",
            "x --- y",
            "Body",
            id="a delimiter within a value (§18-1)",
        ),
        pytest.param(
            "---\nname: |-\n  a\n  ---\n  b\n---\nB",
            "a\n---\nb",
            "B",
            id="one within a block (§18-1)",
        ),
        pytest.param(
            "---\nname: test\n---\nA\n---\nB", "test", "A\n---\nB", id="a rule in the body"
        ),
        pytest.param(
            "---\nname: test\n---\n\n\nBody\n", "test", "Body\n", id="blank lines before the body"
        ),
        pytest.param("---\r\nname: test\r\n---\r\nA\r\nB", "test", "A\nB", id="CRLF"),
        pytest.param("\ufeff---\nname: test\n---\nBody", "test", "Body", id="byte order mark"),
        pytest.param("", "", "", id="empty file"),
    ],
)
def test_split(write: WriteFile, text: str, name: str, instructions: str) -> None:
    agent = load(write(text))
    assert (agent.name, agent.instructions) == (name, instructions)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        pytest.param(
            "\n---\nname: x\n",
            "Invalid frontmatter: the opening delimiter has no closing",
            2,
            id="no closer",
        ),
        pytest.param("---\nname: x\n  ---\nBody", "has no closing", 1, id="an indented closer"),
        pytest.param(
            "---\nname: [invalid\n---\nHello", "Invalid frontmatter YAML", 3, id="no YAML"
        ),
        pytest.param(
            "---\nname: x\nb: {a: 1\n  c: d: e}\n---\n",
            "Invalid frontmatter YAML",
            4,
            id="no YAML, further on",
        ),
        pytest.param(
            "---\n- a\n- b\n---\n", "expected a map of properties, got ['a', 'b']", 2, id="a list"
        ),
        pytest.param(
            "---\njust text\n---\n", "expected a map of properties, got 'just text'", 2, id="a text"
        ),
        pytest.param(
            "---\nname: a\nname: b\n---\n", "the key 'name' is written twice", 3, id="a key twice"
        ),
        pytest.param(
            "---\nmetadata:\n  ? [a]\n  : b\n---\n",
            "a key must be a plain string",
            3,
            id="a list as key",
        ),
        pytest.param(
            "---\nname: !!python/name:os.system\n---\n", "is not supported", 2, id="a foreign tag"
        ),
        pytest.param("---\nname: *nowhere\n---\n", "undefined alias", 2, id="an alias of nothing"),
        pytest.param(
            "---\nmetadata: {a: .nan}\n---\n",
            "not a number that JSON can express",
            2,
            id="not a number",
        ),
        pytest.param(
            '---\nname: "\\ud800"\n---\n', "Invalid frontmatter YAML", 2, id="half a character"
        ),
        pytest.param(
            "---\nname: a\x00b\n---\n", "Invalid frontmatter YAML", 2, id="a control character"
        ),
        pytest.param(
            "---\nname: a\n...\n--- # two\nname: b\n---\n",
            "Invalid frontmatter YAML",
            4,
            id="two documents",
        ),
        pytest.param(
            "---\nmetadata:\n  n: " + "1" * 5000 + "\n---\n",
            "can't read",
            3,
            id="an endless number",
        ),
    ],
)
def test_wrong_frontmatter(write: WriteFile, text: str, message: str, line: int) -> None:
    file = write(text)
    with pytest.raises(LoadError) as caught:
        load(file)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert caught.value.line == line


def test_merge_keys(write: WriteFile) -> None:
    yaml = (
        "base: &base {a: 1, b: 1}\nmore: &more {b: 2, c: 2}\nmetadata: {<<: [*base, *more], c: 3}"
    )
    metadata = load(write(f"---\n{yaml}\n---\n")).metadata or {}
    assert {key: metadata[key] for key in "abc"} == {"a": 1, "b": 1, "c": 3}


@pytest.mark.parametrize(
    "yaml",
    [
        pytest.param("a: &a [1, *a]", id="an alias in itself"),
        pytest.param("a: " + "[" * 200_000, id="deep, unclosed"),
        pytest.param("a: " + "[" * 5_000 + "]" * 5_000, id="deep"),
        pytest.param(
            "\n".join(
                ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 12)]
            ),
            id="bomb",
        ),
        pytest.param(
            "\n".join(
                ["a0: &a0 {x: 1}"]
                + [f"a{n}: &a{n} {{<<: [{f'*a{n - 1}, ' * 9}]}}" for n in range(1, 12)]
            ),
            id="bomb of merges",
        ),
        pytest.param(
            "\n".join(
                ["a0: &a0 {x: 1}"]
                + [f"a{n}: &a{n} {{{f'<<: *a{n - 1}, ' * 9}}}" for n in range(1, 12)]
            ),
            id="bomb of merge keys",
        ),
    ],
)
def test_multiplying_yaml_is_refused(write: WriteFile, yaml: str) -> None:
    with pytest.raises(LoadError):
        load(write(f"---\n{yaml}\n---\n"))


@pytest.mark.parametrize("text", ["name: test\n---\nBody", "\nmodel:\n  id: x\n+++\nBody"])
def test_properties_without_the_line_before_them_are_refused(write: WriteFile, text: str) -> None:
    with pytest.raises(LoadError, match="the first line has to be `---`"):
        load(write(text))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="is not a regular file"):
        load(tmp_path)


def test_an_impossible_path() -> None:
    with pytest.raises(FileNotFoundError):
        load("a\0b")
