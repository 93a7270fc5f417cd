"""Loads the agent that a command names, and gives it a scripted model where one is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .problems import UsageProblem

if TYPE_CHECKING:
    from ..agent import Agent
    from ..testing import Script, ScriptedModel


def load_agent(path: Path) -> Agent:
    """The agent in the file. Raises `UsageProblem` when there is no such file, `LoadError` when it is not valid."""
    from ..prompty.load import load

    require_file(path)
    return load(path, defer_environment=True)


def require_file(path: Path) -> None:
    """Raises `UsageProblem`, which says what agents are here, unless the file exists."""
    if not path.is_file():
        found = ", ".join(sorted(str(each) for each in Path().glob("*.prompty"))) or "none"
        raise UsageProblem(
            f"there is no file {str(path)!r} in {str(Path.cwd())!r}. Expected an agent's .prompty file; here: {found}"
        )


@contextmanager
def scripted_agent(agent: Agent, source: str | None) -> Iterator[Agent]:
    """The agent; while the block runs, the script that `source` names answers in the place of its model.

    None leaves the agent as it is. Raises `UsageProblem` when there is no such script.
    """
    if source is None:
        yield agent
        return
    from ..testing import ScriptedModel

    with ScriptedModel(_load_script(source)) as model:
        yield _with_endpoint(agent, model)


def _load_script(source: str) -> Script:
    """`module:function` or `file.py:function` is a program, `file.json` a list of replies."""
    from ..testing.server import read_script
    from .user_code import load_named

    if source.endswith(".json"):
        try:
            return read_script(Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageProblem(f"--scripted {source!r}: expected a JSON list of replies: {error}") from error
    scripts: list[Script] = list(load_named("--scripted", [source]).values())
    if len(scripts) != 1:
        raise UsageProblem(f"--scripted {source!r}: expected module:function, file.py:function or file.json")
    return scripts[0]


def _with_endpoint(agent: Agent, model: ScriptedModel) -> Agent:
    from ..agent import Connection, Model

    declared = agent.model or Model(id="scripted")
    provider = "anthropic" if declared.provider == "anthropic" else "openai"
    endpoint = model.anthropic_endpoint if provider == "anthropic" else model.openai_endpoint
    connection = Connection(kind="anonymous", endpoint=endpoint)
    return agent.model_copy(
        update={"model": declared.model_copy(update={"provider": provider, "connection": connection})}
    )
