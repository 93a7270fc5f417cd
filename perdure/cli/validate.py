"""`perdure validate`: reports the faults of an agent's file, and the request to its model."""

from __future__ import annotations

from dataclasses import asdict, replace

from click.exceptions import Exit

from ..json_types import JsonObject
from ..model_choice import model_choice
from ..prompty.check.check import check
from ..providers.sdks import missing_key
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
    if given.show_request and agent:
        from .first_request import first_request  # imports providers, and all that executes tools

        inputs, deps = read_inputs(agent, given.inputs, given.inputs_json), read_deps(given.deps)
        request = first_request(agent, inputs, functions, deps.get("deps"))
    if given.as_json:
        answer({"problems": [asdict(problem) for problem in problems], "request": request})
    else:
        if agent and agent.model and (missing := missing_key(agent.model)):
            say(missing)
        tell(file, problems)
        if not problems:
            say(f"{file}: no problems found", "good")
        if request is not None:
            answer(request)
    if has_error:
        raise Exit(FAILED)
