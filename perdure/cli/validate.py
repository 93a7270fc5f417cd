"""`perdure validate`: say what is wrong with an agent's file, and what its model would be sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from click.exceptions import Exit

from ..agents import Agent
from ..context_windows import CHARS_PER_TOKEN, window_of
from ..declared_tools import ApprovalPolicy
from ..json_types import JsonObject, JsonView
from ..model_choice import model_choice
from ..prompty.check.check import Problem, check
from ..providers.sdks import missing_key
from ..settings.agent_file import options_for
from .agent_file import load_agent, read_deps, read_inputs, require_file, tell
from .console import answer, say
from .given import Given
from .problems import FAILED
from .surroundings import beyond_limits, declarations_by, further_checks, specification_findings
from .user_code import load_user_code, sources_of


def validate(given: Given) -> None:
    """Check the file, and print the problems and the request."""
    file = given.agent_file
    require_file(file)
    functions = load_user_code(sources_of(given)).tools
    compared = [declarations_by(functions)] if given.tools else []
    choice = model_choice(given.model, given.provider, given.endpoint)
    further = [*further_checks(functions), *compared, specification_findings, beyond_limits]
    problems = check(file, also=further, choice=choice)
    if given.strict:
        problems = [replace(problem, severity="error") for problem in problems]
    has_error = any(problem.severity == "error" for problem in problems)
    agent = None if has_error else load_agent(file, choice)
    request: JsonObject | None = None
    specs: list[JsonObject] = []
    if given.show_request and agent:
        from .first_request import first_request  # imports providers, and all that executes tools

        inputs, deps = read_inputs(agent, given.inputs, given.inputs_json), read_deps(given.deps)
        request, specs = first_request(agent, inputs, functions, deps.get("deps"))
    if given.as_json:
        found = [_as_dict(problem) for problem in problems]
        answer({"problems": found, "request": request, "tools": specs})
    else:
        if agent and agent.model and (missing := missing_key(agent.model)):
            say(missing)
        _print(file, problems, request, specs)
        if agent and (suggested := _suggested_budget(agent)):
            say(suggested)
    if has_error:
        raise Exit(FAILED)


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
    return "; ".join(filter(None, [said, "the tools that its kind finds when a run begins"]))


def _needed_approval(spec: JsonView) -> str:
    policy = spec.get("approvers")
    who = f" ({ApprovalPolicy.model_validate(policy).in_words()})" if policy else ""
    return f"needs an approval{who}"


def _as_dict(problem: Problem) -> JsonObject:
    return {
        "line": problem.line,
        "field": problem.field,
        "message": problem.message,
        "severity": problem.severity,
    }
