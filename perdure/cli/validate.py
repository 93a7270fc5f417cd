"""`perdure validate`: say what is wrong with an agent's file, and what its model would be sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..agents import Agent
from ..context_windows import CHARS_PER_TOKEN, window_of
from ..declared_tools import ApprovalPolicy
from ..errors import LoadError
from ..json_types import JsonObject, JsonView
from ..model_choice import model_choice
from ..prompty.check.check import Problem, check
from ..prompty.load import lock_beside
from ..providers.sdks import missing_key
from ..settings.agent_file import options_for
from . import shared_options as options
from .agent_file import load_agent, read_inputs, require_file, tell
from .console import answer, say
from .problems import FAILED
from .surroundings import beyond_limits, declarations_by, further_checks, specification_findings
from .user_code import load_user_code


def validate(
    agent_file: options.AgentFile,
    show_request: Annotated[
        bool, typer.Option("--show-request", help="Print the request to the model; it is not sent.")
    ] = False,
    inputs: options.Inputs = None,
    inputs_json: options.InputsJson = None,
    model: options.OtherModel = None,
    provider: options.Provider = None,
    endpoint: options.Endpoint = None,
    tools: options.Tools = None,
    strict: Annotated[bool, typer.Option("--strict", help="Take warnings for errors.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check an agent's file without calling anything.

    With --tools, the declared tools are compared with their functions too. Exit code 1 when there
    is an error; with --strict, a warning is one, too.
    """
    require_file(agent_file)
    functions = load_user_code(tools or ()).tools
    compared = [declarations_by(functions)] if tools else []
    choice = model_choice(model, provider, endpoint)
    further = [*further_checks(functions), *compared, specification_findings, beyond_limits]
    problems = check(agent_file, also=further, choice=choice)
    problems += _lock_problems(agent_file)
    request: JsonObject | None = None
    specs: list[JsonObject] = []
    if strict:
        problems = [replace(problem, severity="error") for problem in problems]
    has_error = any(problem.severity == "error" for problem in problems)
    if show_request and not has_error:
        from .first_request import first_request  # brings providers, and all that executes tools

        agent = load_agent(agent_file, choice)
        request, specs = first_request(
            agent, read_inputs(agent, inputs or [], inputs_json), functions
        )
    if as_json:
        answer(
            {
                "problems": [_as_dict(problem) for problem in problems],
                "request": request,
                "tools": specs,
            }
        )
    else:
        asked = None if has_error else load_agent(agent_file, choice).model
        if asked and (missing := missing_key(asked)):
            say(missing)
        _print(agent_file, problems, request, specs)
        if not has_error and (suggested := _suggested_budget(load_agent(agent_file, choice))):
            say(suggested)
    if has_error:
        raise typer.Exit(FAILED)


def _lock_problems(agent_file: Path) -> list[Problem]:
    """Return what is wrong with the lock beside the file: no run begins with it."""
    try:
        lock_beside(agent_file)
    except LoadError as error:
        return [Problem(line=None, field="", message=str(error), severity="error")]
    return []


def _suggested_budget(agent: Agent) -> str:
    """Return which `contextBudget` suits an agent with tools that has none; "" where that is not
    known.
    """
    id = agent.model.id if agent.model else None
    window = window_of(id) if id and agent.tools else None
    if window is None or options_for(agent).context_budget:
        return ""
    return (
        f"{id} takes about {window:,} tokens: contextBudget: {window * CHARS_PER_TOKEN} in "
        "metadata.perdure trims a "
        "conversation before it is too long"
    )


def _print(
    agent_file: Path, problems: list[Problem], request: JsonObject | None, specs: list[JsonObject]
) -> None:
    tell(agent_file, problems)
    if not problems:
        say(f"{agent_file}: no problems found", "good")
    for spec in specs:
        say(f"tool {spec['name']}: {_in_words(spec)}")
    if request is not None:
        answer(request)


def _in_words(spec: JsonView) -> str:
    seconds, most = spec.get("timeout"), spec.get("max_result")
    words = {
        "timeout": f"{seconds:g} s" if seconds else "the run's time-out",
        "retries": f"{spec['retries']} retries" if spec.get("retries") else "no retries",
        "idempotent": "idempotent" if spec.get("idempotent") else "not idempotent",
        "parallel_safe": "" if spec.get("parallel_safe") else "never beside others",
        "needs_approval": _needed_approval(spec) if spec.get("needs_approval") else "",
        "approval_check": "needs an approval if its function asks for it"
        if spec.get("approval_check")
        else "",
        "approval_timeout": f"denied after {spec['approval_timeout']:g} s"
        if spec.get("approval_timeout")
        else "",
        "local": "local" if spec.get("local") else "",
        "max_result": f"at most {most:,} bytes of a result" if most else "",
    }
    said = ", ".join(word for name, word in words.items() if name in spec and word)
    if spec.keys() >= words.keys():
        return said
    return (
        f"{said}; the tools that its kind finds when a run begins"
        if said
        else "the tools that its kind finds when a run begins"
    )


def _needed_approval(spec: JsonView) -> str:
    policy = spec.get("approvers")
    return (
        f"needs an approval ({ApprovalPolicy.model_validate(policy).in_words()})"
        if policy
        else "needs an approval"
    )


def _as_dict(problem: Problem) -> JsonObject:
    return {
        "line": problem.line,
        "field": problem.field,
        "message": problem.message,
        "severity": problem.severity,
    }
