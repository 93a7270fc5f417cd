"""Loads the agent that a command names, and gives it a scripted model where one is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..shell import command_line, shell_word
from .console import say
from .problems import Failure, UsageProblem

if TYPE_CHECKING:
    from ..agent import Agent
    from ..prompty.check.check import Problem
    from ..testing import Script, ScriptedModel


def load_agent(path: Path) -> Agent:
    """The agent in the file. Raises `UsageProblem` when there is no such file, `LoadError` when it is not valid."""
    from ..errors import PromptyWarning
    from ..prompty.load import load

    require_file(path)
    with warnings.catch_warnings():
        # `check` lists them, with their lines.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", PromptyWarning)
        return load(path, defer_environment=True)


def load_checked(
    path: Path, functions: Collection[str] = (), *, has_model: bool = True, elsewhere: bool = False, quiet: bool = False
) -> Agent:
    """The agent in the file, once everything that is known to keep it from running, or looks wrong, has been said.

    `further_checks` explains the arguments; without a model, nothing that looks wrong with it is said. When `quiet`,
    only errors are said. Raises what `load_agent` does, and `Failure` when the file has an error.
    """
    from ..prompty.check.check import check
    from ..prompty.migration import FIRST_FORMAT
    from .surroundings import further_checks

    agent = load_agent(path)
    problems = check(path, also=further_checks(functions, has_model=has_model, elsewhere=elsewhere))
    if not has_model:
        # Its key need not be there, for example.
        problems = [each for each in problems if each.severity == "error" or not each.field.startswith("model.")]
    errors = [problem for problem in problems if problem.severity == "error"]
    old = [problem for problem in problems if problem.message.endswith(FIRST_FORMAT)]
    tell(path, errors if quiet else [problem for problem in problems if problem not in old])
    validate = command_line("validate", str(path))
    if old and not quiet:
        say(f"{path}: warning: of the first format: {len(old)} of its properties; `{validate}` lists them")
    if errors:
        raise Failure(f"no run was started: correct {str(path)!r} first; `{validate}` checks it again")
    return agent


def tell(path: Path, problems: Sequence[Problem]) -> None:
    """Say what is wrong with the agent's file, a line for each problem."""
    for problem in problems:
        place = f"{path}:{problem.line}" if problem.line else str(path)
        field = f"{problem.field}: " if problem.field else ""
        say(f"{place}: {problem.severity}: {field}{problem.message}", "bad" if problem.severity == "error" else "plain")


def require_file(path: Path) -> None:
    """Raises `UsageProblem`, which says what agents are here, unless the path is a file that may be an agent's."""
    if path.suffix in (".py", ".pyi", ".pyc"):
        option = f"--tools {shell_word(str(path))}"
        raise UsageProblem(f"{str(path)!r} is Python code. Expected an agent's .prompty file; tools: {option}")
    if path.is_file():
        return
    folder = path if path.is_dir() else Path()
    found = ", ".join(sorted(str(each) for each in folder.glob("*.prompty") if each.is_file())) or "none"
    if path.is_dir():
        raise UsageProblem(f"{str(path)!r} is a folder. Expected an agent's .prompty file; in there: {found}")
    raise UsageProblem(
        f"there is no file {str(path)!r} in {str(Path.cwd())!r}. Expected an agent's .prompty file; here: {found}"
    )


@contextmanager
def scripted_agent(agent: Agent, source: str | None) -> Iterator[Agent]:
    """The agent; while the block runs, the script that `source` names answers in the place of every model.

    None leaves the agent as it is. Raises `UsageProblem` when there is no such script.
    """
    if source is None:
        yield agent
        return
    from ..testing import ScriptedModel
    from ..testing.scripted_agent import with_script

    with ScriptedModel(_load_script(source)) as model:
        yield with_script(agent, model)


def script_at(endpoint: str, source: str) -> ScriptedModel:
    """The scripted model at the port that `endpoint` names. Raises `UsageProblem` when there is no such script."""
    from urllib.parse import urlsplit

    from ..testing import ScriptedModel

    return ScriptedModel(_load_script(source), port=urlsplit(endpoint).port or 0)


def _load_script(source: str) -> Script:
    """`module:function` or `file.py:function` is a program, `file.json` a list of replies."""
    from json import JSONDecodeError

    from ..testing.server import read_script
    from .user_code import load_named

    if source.endswith(".json"):
        try:
            return read_script(Path(source).read_text(encoding="utf-8"))
        except (OSError, RecursionError, JSONDecodeError) as error:
            raise UsageProblem(f"--scripted {source!r}: expected a JSON list of replies: {error}") from error
        except ValueError as error:
            raise UsageProblem(f"--scripted {source!r}: {error} (perdure docs testing-agents)") from error
    scripts: list[Script] = list(load_named("--scripted", [source]).values())
    if len(scripts) != 1:
        raise UsageProblem(f"--scripted {source!r}: expected module:function, file.py:function or file.json")
    return scripts[0]
