"""Builds a run's input: the argument of the workflow `perdure.AgentRun`, for any Temporal SDK."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from temporalio import workflow

from ..agents import Agent
from ..declared_tools import Property
from ..errors import ConfigurationError, RenderError
from ..loop.state import LOOP_VERSION
from ..messages import Message
from ..model_choice import AS_WRITTEN, ModelChoice, with_other_model
from ..options import RunOptions, options_of
from ..prompty.load import load
from ..prompty.portable import portable
from ..prompty.prepare import instructions_by_path, prepare
from ..prompty.rich_values import MEDIA, media_parts, thread_messages, with_media_read
from ..protocol.run import RecordedOptions, RunInput
from ..redaction import Redactor, get_logger, redactor
from ..schema import LENIENT, object_schema
from ..settings.agent_file import options_for
from ..settings.child_agents import handoffs_of
from ..settings.delegates import as_started
from ..text import did_you_mean, one_line, valid_json
from ..tools.binding import bound_inputs
from ..tools.files import agents_of_run, record_tools

_log = get_logger("perdure.client")


def run_input(
    agent: Agent | str | PathLike[str],
    inputs: Mapping[str, Any] | str | None = None,
    *,
    options: RunOptions | Mapping[str, Any] | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    deps: Any = None,
) -> dict[str, Any]:
    """Return the argument of the workflow `perdure.AgentRun` as JSON: for a child workflow, a
    schedule or another SDK.

    `start_run` sends the same for the same arguments. This function sends nothing; it reads a path.
    Inside a workflow, pass an `Agent` and `messages`: files and templates are for outside, and
    workers find the files of called agents (`prompt_root`). Raises the errors of `load`,
    `options_for` and `prepare`, and `ConfigurationError` for a literal secret in an agent.
    """
    argument: dict[str, Any] = json.loads(
        new_run(agent, inputs, options, messages, deps).model_dump_json(by_alias=True)
    )
    return argument


def new_run(
    agent: Agent | str | PathLike[str],
    inputs: Mapping[str, Any] | str | None,
    options: RunOptions | Mapping[str, Any] | None,
    messages: Sequence[Message | Mapping[str, Any]] | None,
    deps: Any = None,
    handoffs: dict[str, list[Message]] | None = None,
) -> RunInput:
    """Return the same as a model; `handoffs` are in another run's recorded form. Raises like
    `run_input`.
    """
    environment = {} if workflow.in_workflow() else os.environ
    loaded = as_started(loaded_agent(agent), environment)
    given = {
        name: valid_json(value) for name, value in with_media_read(loaded, inputs or {}).items()
    }
    require_kinds(loaded, given)
    known = redactor(loaded)
    asked = options_of(options)
    chosen = options_for(loaded, asked, environment)
    first = (
        prepare(loaded, given) if messages is None else [_message(message) for message in messages]
    )
    recorded, agents = (loaded, {}) if workflow.in_workflow() else record_tools(loaded)
    sent = portable(recorded)
    agents = agents_of_run(sent, agents)
    others = handoffs_of(sent, agents) if agents else {}
    bound = bound_inputs([loaded, *others.values()], given, chosen)
    for name in given.keys() - bound.keys():
        if not any(_takes(each, name) for each in (loaded, *others.values())):
            declared = ", ".join(each.name for each in loaded.inputs or ()) or "none"
            _log.warning(
                "Nothing uses the input %r: the agent %r declares %s",
                name[:80],
                loaded.name,
                declared,
            )
    return RunInput(
        agent=sent,
        agents=agents,
        handoffs=known.value(instructions_by_path(others, given) if handoffs is None else handoffs),
        messages=known.value(first),
        inputs=known.value(bound),
        deps=recorded_deps(deps, known),
        options=chosen,
        given=[] if isinstance(asked, RecordedOptions) else sorted(asked.model_fields_set),
        loop_version=LOOP_VERSION,
    )


def _takes(agent: Agent, name: str) -> bool:
    return name in (agent.instructions or "") or any(
        each.name == name for each in agent.inputs or ()
    )


def recorded_deps(deps: Any, known: Redactor) -> Any:
    """Return the deps of a run as JSON.

    Raises ConfigurationError for a value that does not survive JSON unchanged, and for a secret in
    it.
    """
    if deps is None:
        return None
    try:
        written = TypeAdapter(type(deps)).dump_json(deps, by_alias=True, round_trip=True)
        fault = (
            ""
            if TypeAdapter(type(deps)).validate_json(written) == deps
            else "JSON gives back another value"
        )
    except (
        PydanticUserError,
        PydanticSerializationError,
        ValueError,
        TypeError,
        RecursionError,
    ) as error:
        written, fault = b"null", one_line(str(error), 300)
    value = json.loads(written)
    if not fault and known.value(value) != value:
        fault = "it has a secret, which every run would record"
    if fault:
        raise ConfigurationError(
            f"deps of the type {type(deps).__name__} can't be recorded with the run: {fault}. "
            "Expected JSON, a pydantic model or a dataclass. Clients, connections and secrets "
            f"belong to the worker, which may make them of deps: create_worker(resources={{Client: "
            f"lambda deps: Client(deps.tenant)}})"
        )
    return value


def require_kinds(agent: Agent, inputs: Mapping[str, Any]) -> None:
    """Raises RenderError for a value that does not fit its input's declared kind, or is not one of
    its `enumValues`.

    Null counts as absent where no value is required. Undeclared inputs pass, except one whose name
    resembles that of a declared input without a value.
    """
    absent = [each.name for each in agent.inputs or () if each.name not in inputs]
    for name in inputs.keys() - {each.name for each in agent.inputs or ()}:
        if hint := did_you_mean(name, absent):
            raise RenderError(f"the agent has no input {name!r}{hint}")
    for declared in agent.inputs or ():
        value = inputs.get(declared.name)
        if value is None and not (declared.required and declared.name in inputs):
            continue
        if fault := _fault(declared, value):
            raise RenderError(
                f"input {declared.name!r}: {fault}. The agent declares it with the kind "
                f"{declared.kind}"
            )


def _fault(declared: Property, value: Any) -> str:
    """Return the reason why a value does not fit the declaration; "" when it fits."""
    name, kind = declared.name, declared.kind
    if kind == "thread":
        return (
            ""
            if thread_messages(name, value) is not None
            else f"{value!r:.200} is not a list of messages"
        )
    if kind in MEDIA:
        try:
            media_parts(name, kind, value)
        except RenderError:
            return f"{value!r:.200} is not a text, or a map with `source`"
        return ""
    from jsonschema import Draft202012Validator  # only for inputs of such a kind

    schema = object_schema([declared.model_copy(update={"required": True})], LENIENT)
    given = {name: to_jsonable_python(value, fallback=str)}
    fault = next(Draft202012Validator(schema).iter_errors(given), None)
    if fault is None and not _is_finite(given):
        return f"{value!r:.200} has a number that JSON does not have: NaN, or infinite"
    return (
        f"{fault.json_path}: {fault.message:.400}".removeprefix(f"$.{name}").lstrip(": ")
        if fault
        else ""
    )


def _is_finite(value: Any) -> bool:
    """Return whether all numbers in a JSON value are finite."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def loaded_agent(agent: Agent | str | PathLike[str], choice: ModelChoice = AS_WRITTEN) -> Agent:
    """Return the agent, read from its file now, with that model. Raises the errors of `load`."""
    if isinstance(agent, Agent):
        return with_other_model(agent, choice) if any(choice) else agent
    return load(agent, defer_environment=True, choice=choice)


def _message(value: Message | Mapping[str, Any]) -> Message:
    return value if isinstance(value, Message) else Message.model_validate(valid_json(dict(value)))
