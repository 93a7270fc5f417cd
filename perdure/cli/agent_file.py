"""Loads a command's agent with its inputs, and replaces its model with a scripted one on
request.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..agents import Agent
from ..commands import command_line, shell_word
from ..json_types import JsonObject
from ..media import described_content
from ..model_choice import AS_WRITTEN, ModelChoice
from ..prompty.check.check import Problem, check
from ..prompty.load import load
from ..text import did_you_mean
from .console import say
from .problems import Failure, UsageProblem
from .surroundings import declarations_by, further_checks
from .user_code import load_named

if TYPE_CHECKING:  # Only --scripted needs the testing modules.
    from ..client.starting import StartOptions
    from ..testing import Script, ScriptedModel


def load_agent(path: Path, choice: ModelChoice = AS_WRITTEN) -> Agent:
    """Load the agent in the file, with that model.

    Raises `UsageProblem` for a missing file, `LoadError` for an invalid one.
    """
    require_file(path)
    with warnings.catch_warnings():
        # `check` lists the errors, with their lines.
        warnings.simplefilter("ignore", DeprecationWarning)
        return load(path, defer_environment=True, choice=choice)


def load_checked(
    path: Path,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    *,
    choice: ModelChoice = AS_WRITTEN,
    has_model: bool = True,
    elsewhere: bool = False,
    quiet: bool = False,
) -> Agent:
    """Load the agent in the file, with that model, and report errors and warnings.

    `further_checks` explains the arguments; without a model, there are no warnings about it. When
    `quiet`, only errors are reported. Raises like `load_agent`, and `Failure` when the file has
    errors, after reporting all of them.
    """
    require_file(path)
    functions = functions or {}
    further = further_checks(functions, has_model=has_model, elsewhere=elsewhere)
    further.append(declarations_by(functions, are_all=False))
    problems = check(path, also=further, choice=choice)
    if not has_model:
        # For example, its key may be absent.
        problems = [
            each
            for each in problems
            if each.severity == "error" or not each.field.startswith("model.")
        ]
    errors = [problem for problem in problems if problem.severity == "error"]
    tell(path, errors if quiet else problems)
    if errors:
        validate = command_line("validate", str(path))
        raise Failure(
            f"no run was started: correct {str(path)!r} first; `{validate}` checks it again"
        )
    return load_agent(path, choice)


def tell(path: Path, problems: Sequence[Problem]) -> None:
    """Report the problems of the agent's file, a line for each."""
    for problem in problems:
        place = f"{path}:{problem.line}" if problem.line else str(path)
        field = f"{problem.field}: " if problem.field else ""
        say(
            f"{place}: {problem.severity}: {field}{problem.message}",
            "bad" if problem.severity == "error" else "plain",
        )


def require_file(path: Path) -> None:
    """Raises `UsageProblem`, with a list of the agents here, unless the path is a file that may be
    an agent's.
    """
    if path.suffix in (".py", ".pyi", ".pyc"):
        option = f"--tools {shell_word(str(path))}"
        raise UsageProblem(
            f"{str(path)!r} is Python code. Expected an agent's .prompty file; tools: {option}"
        )
    if path.is_file():
        return
    is_folder = path.is_dir()
    files = (path if is_folder else Path()).glob("*.prompty")
    found = ", ".join(sorted(str(each) for each in files if each.is_file())) or "none"
    wrong, where = f"there is no file {str(path)!r} in {str(Path.cwd())!r}", "here"
    if is_folder:
        wrong, where = f"{str(path)!r} is a folder", "in there"
    raise UsageProblem(f"{wrong}. Expected an agent's .prompty file; {where}: {found}")


@contextmanager
def scripted_agent(agent: Agent, source: str | None) -> Iterator[Agent]:
    """Yield the agent; while the block runs, the script from `source` answers instead of every
    model.

    None leaves the agent as it is. Raises `UsageProblem` for a missing script.
    """
    if source is None:
        yield agent
        return
    from ..testing import ScriptedModel
    from ..testing.server import with_script

    with ScriptedModel(_load_script(source)) as model:
        yield with_script(agent, model)


def endpoint_of(agent: Agent) -> str:
    """Return the address of the agent's model; "" for the provider's default."""
    connection = agent.model.connection if agent.model else None
    return (connection and connection.endpoint) or ""


def script_at(endpoint: str, source: str) -> ScriptedModel:
    """Return the scripted model, at the port in `endpoint`. Raises `UsageProblem` for a missing
    script.
    """
    from ..testing import ScriptedModel

    return ScriptedModel(_load_script(source), port=urlsplit(endpoint).port or 0)


def _load_script(source: str) -> Script:
    """`module:function` or `file.py:function` is a program, `file.json` a list of replies."""
    if source.endswith(".json"):
        from ..testing.server import read_script

        try:
            return read_script(Path(source).read_text(encoding="utf-8"))
        except (OSError, RecursionError, JSONDecodeError) as error:
            raise UsageProblem(
                f"--scripted {source!r}: expected a JSON list of replies: {error}"
            ) from error
        except ValueError as error:
            raise UsageProblem(
                f"--scripted {source!r}: {error} (perdure docs testing-agents)"
            ) from error
    scripts: list[Script] = list(load_named("--scripted", [source]).values())
    if len(scripts) != 1:
        raise UsageProblem(
            f"--scripted {source!r}: expected module:function, file.py:function or file.json"
        )
    return scripts[0]


_MEDIA = ("image", "audio", "file")


def read_inputs(agent: Agent, pairs: Sequence[str], json_file: Path | None) -> JsonObject:
    """Read the inputs; a pair overrides the file. Raises `UsageProblem`, which names the wrong
    option.
    """
    inputs = _read_json_file(json_file) if json_file else {}
    kinds = {declared.name: declared.kind for declared in agent.inputs or []}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            example = f"{next(iter(kinds), 'question')}=…"
            raise UsageProblem(
                f"--input {pair!r}: expected name=value or name=@file, such as {example}"
            )
        if kinds and name not in kinds:
            hint = did_you_mean(name, kinds)
            raise UsageProblem(
                f"--input {pair!r}: the agent has no input {name!r}, only {', '.join(kinds)}{hint}"
            )
        inputs[name] = _value(pair, kinds.get(name, "string"), text)
    missing = [each.name for each in agent.inputs or [] if each.required and each.default is None]
    if missing := [name for name in missing if name not in inputs]:
        raise UsageProblem(
            f"the agent {agent.name!r} needs {', '.join(missing)}. Type: "
            + " ".join(f"--input {n}=…" for n in missing)
        )
    if inputs:
        from ..client.run_input import require_kinds  # with temporalio

        try:
            require_kinds(agent, inputs)
        except ValueError as error:
            raise UsageProblem(f"--input: {error}") from error
    return inputs


def read_deps(given: str | None) -> StartOptions:
    """Return the deps of the option `--deps`, if given. Raises `UsageProblem`."""
    if given is None:
        return {}
    shown = f"--deps {given!r:.80}"
    try:
        return {"deps": _json(_read(shown, Path(given[1:])) if given.startswith("@") else given)}
    except ValueError as error:
        raise UsageProblem(f"{shown}: expected JSON, or @FILE with it: {error}") from error


def read_given(agent: Agent | None, pairs: Sequence[str], json_file: Path | None) -> JsonObject:
    """Read inputs for an agent's prompt without requiring any. Raises `UsageProblem` like
    `read_inputs`.
    """
    if agent is None:
        if pairs or json_file:
            raise UsageProblem(
                "--input: inputs are for the prompt of another agent, expected --agent with it"
            )
        return {}
    optional = [declared.model_copy(update={"required": False}) for declared in agent.inputs or []]
    return read_inputs(agent.model_copy(update={"inputs": optional}), pairs, json_file)


def _read_json_file(path: Path) -> JsonObject:
    option = f"--inputs-json {str(path)!r}"
    try:
        inputs = _json(_read(option, path))
    except ValueError as error:
        raise UsageProblem(f"{option}: not valid JSON: {error}") from error
    if not isinstance(inputs, dict):
        got = type(inputs).__name__
        raise UsageProblem(f"{option}: expected a JSON object of inputs by name, got {got}")
    return inputs


def _value(pair: str, kind: str, text: str) -> Any:
    """Return the value of `text`, or of the file in `@path`, as its kind is written."""
    content = os.fsencode(text)
    if text.startswith("@"):
        path = Path(text[1:])
        content = _read(f"--input {pair!r}", path)
        if kind in _MEDIA:
            try:
                return described_content(kind, content, name="" if text == "@-" else path.name)
            except ValueError as error:
                raise UsageProblem(f"--input {pair!r}: {error}") from error
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        byte, place = content[error.start], error.start
        raise UsageProblem(
            f"--input {pair!r}: not UTF-8 text (byte 0x{byte:02x} at position {place}). Expected "
            "text; an input for other data is declared with `kind: file`, image or audio"
        ) from None
    if kind == "string" or kind in _MEDIA:
        return text
    try:
        return _json(text)
    except ValueError as error:
        if kind == "union":
            return text
        raise UsageProblem(
            f"--input {pair!r}: expected a value of kind {kind} as JSON ({error})"
        ) from error


def _json(text: str | bytes) -> Any:
    """Return the value. Raises ValueError for anything that is not JSON, or nests too deeply."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _read(option: str, path: Path) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.expanduser().read_bytes()
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder for `~name`
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageProblem(
            f"{option}: the file can't be read ({reason}). Expected its path."
        ) from error
