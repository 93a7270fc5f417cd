"""Writes docs/reference/cli.md from the command line's own help: `make docs`. A test fails when the two
differ.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

import perdure.cli
from perdure.cli.entry import run
from perdure.cli.given import BY_CODE, SHORT_FORMS, option_name
from perdure.cli.table import COMMANDS
from perdure.options import CHANGED_BY_GO_ON, RunOptions

TABLE = Path(perdure.cli.__file__).with_name("run_options.json")
LIMITS = re.compile(
    r"max_.*|.*_(?:seconds|timeout|retries|grace|after)|context_budget|retries|on_limit"
)
PAGE = Path(__file__).with_name("reference") / "cli.md"
INTRODUCTION = """\
# What can I type?

`perdure COMMAND --help` says it too; this page is written from it (`make docs`).

The answer of a command is on stdout and nothing else; progress, thinking and errors are on stderr. `--json` is for
programs. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (a service that is sent SIGTERM ends with 0).
Control characters in what models, tools and others have written are escaped, in JSON and logs too; a run's answer is
left as it is where stdout is no terminal. Commands in messages are quoted for a shell.

The server is the one that Temporal's own configuration names (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`,
`TEMPORAL_API_KEY`, `TEMPORAL_TLS_…`, or a profile of `temporal.toml`), so Temporal Cloud works without code. Without
one it is the embedded server: one per data folder (`PERDURE_HOME`), shared by all perdure commands that are running,
ended with the last of them, its runs kept in a file for a year after their end (`PERDURE_RETENTION_DAYS`).

A run whose worker is gone, because its command was killed or its machine was switched off, goes on with
`perdure resume ID`. A run that has ended is the beginning of another with `perdure fork ID --steer "…"`.

With `eval "$(_PERDURE_COMPLETE=bash_source perdure)"` in `~/.bashrc` (`zsh_source` in `~/.zshrc`, or `fish_source`), the
shell completes commands and options.
[Watching a run](../guides/watching.md) has pictures of what a terminal shows.
"""


def page() -> str:
    """The whole page, as it should be."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections(*command: str) -> Iterator[str]:
    """The command's, and those of the commands that it has."""
    text = help_of(*command)
    yield f"## {' '.join(['perdure', *command])}\n\n```text\n{text.strip()}\n```\n"
    commands = (
        re.findall(r"^  ([a-z-]+) ", text.partition("\nCommands:")[2], re.MULTILINE)
        if command
        else COMMANDS
    )
    for name in commands:
        yield from _sections(*command, name)


def help_of(*command: str) -> str:
    """What `perdure … --help` prints on 80 columns."""
    written = io.StringIO()
    with redirect_stdout(written):
        code = run([*command, "--help"])
    assert code == 0, command
    return written.getvalue()


def table() -> str:
    """The options of a run as data, for a help that does not import the model."""
    texts = docstrings(RunOptions)
    fields = {
        name: _about(name, info, texts.get(name, ""))
        for name, info in RunOptions.model_fields.items()
        if name not in BY_CODE
    }
    return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def _about(name: str, info: FieldInfo, text: str) -> dict[str, Any]:
    default = "" if info.default in (None, False) else f" [default: {info.default}]"
    type = _type(info.annotation)
    about = {"help": text + default}
    if type == "bool":
        about["names"] = f"{option_name(name)}/--no-{option_name(name)[2:]}"
    elif isinstance(type, str):
        about |= {"type": type, "metavar": {"int": "N", "float": "NUMBER", "str": "TEXT"}[type]}
    else:
        about["type"] = type
    if name in SHORT_FORMS:
        about["names"] = f"{about.get('names', option_name(name))} --{name.replace('_', '-')}"
    return about | {
        "title": "Limits and time-outs" if LIMITS.fullmatch(name) else "How the run works",
        "may_change": name in CHANGED_BY_GO_ON,
    }


def _type(annotation: Any) -> str | list[str]:
    """`int`, `float`, `bool` or `str`, or the words to choose from; the model reads others from text."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is Literal:
        return parts
    only = parts[0] if len(parts) == 1 else annotation
    if get_origin(only) is Literal:
        return list(get_args(only))
    return only.__name__ if only in (int, float, bool) else "str"


def docstrings(model: type) -> dict[str, str]:
    """The text under each field of a class, in one line and without the specification's section numbers."""
    [definition] = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: _for_a_terminal(" ".join(ast.literal_eval(text.value).split()))
        for field, text in zip(definition.body, definition.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
    }


def _for_a_terminal(text: str) -> str:
    """The text with options in the place of fields, and without section numbers."""
    text = re.sub(
        r'`(\w+)(?:="(\w+)")?`',
        lambda it: " ".join([option_name(it[1]), *filter(None, [it[2]])]),
        text,
    )
    return re.sub(r" \(§[\d.]+\)", "", text)


os.environ.update(COLUMNS="80", NO_COLOR="1")
if __name__ == "__main__":
    TABLE.write_text(table())
    PAGE.write_text(page())
