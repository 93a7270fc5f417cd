"""The settings of an agent's file for its runs: in `metadata.perdure`, or under the names of
another system. Pure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, TypeVar

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from ..agents import Agent
from ..errors import ConfigurationError, LoadError
from ..options import CLOUD_INTERVALS, RunOptions, options_of
from ..webhooks import distinct_webhooks
from .foreign import SYSTEMS, TOOLS_IN_TEXT, system_of
from .values import (
    MAX_NAME,
    Place,
    SessionSettings,
    SettingProblem,
    Settings,
    read_map,
    unknown,
)

_OF_THE_START = {
    to_camel(name): name
    for name in (
        "raw",
        "turn",
        "stream",
        "compactor",
        "missing_tool_grace",
        "lost_worker_seconds",
        "stream_seconds",
    )
}
"""Options that an agent's file can't set: the caller decides how a run is watched, and its workers
which resources it has."""
OPTION_NAMES: Mapping[str, str] = {
    to_camel(name): name for name in RunOptions.model_fields if name not in _OF_THE_START.values()
}
"""The name of a setting of `metadata.perdure` → the field of `RunOptions`."""
BUDGETS = ("max_total_tokens", "max_tool_calls", "max_seconds", "max_cost_usd")
"""Options of which a called run gets a share of its caller's."""

OF_A_RUN = (
    *BUDGETS,
    "max_iterations",
    "on_limit",
    "on_failure",
    "webhooks",
    "max_depth",
    "cancel_grace",
)
"""Options that a run keeps when it continues as another agent."""
_NO_VARIABLES: Mapping[str, str] = {}
Options = TypeVar("Options", bound=RunOptions)


def options_for(
    agent: Agent,
    options: RunOptions | Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = _NO_VARIABLES,
) -> RunOptions:
    """Return the options of a run of the agent: those that the caller set, then those of the
    agent's file.

    After the file comes the environment, if the agent's system has variables for them, and last
    that system's defaults. Raises LoadError for a wrong setting, ConfigurationError for an
    environment variable, and the errors of `options_of`.
    """
    options = options_of(options)
    settings = settings_of(agent)
    found = {**settings.usual, **_environment(settings, environment), **settings.chosen}
    new = {name: value for name, value in found.items() if name not in options.model_fields_set}
    if "webhooks" in found:  # A caller's webhooks do not replace those of the agent's author.
        new["webhooks"] = distinct_webhooks(options.webhooks, found["webhooks"])
    return options.model_copy(update=new) if new else options


def with_on_failure(
    agent: Agent, options: RunOptions, usual: Literal["fail", "hold"]
) -> RunOptions:
    """Return the options with the default `on_failure`, if neither they nor the agent's file set
    one.

    Raises LoadError for a wrong setting in the file.
    """
    if options.on_failure or settings_of(agent).chosen.get("on_failure"):
        return options
    return options.model_copy(update={"on_failure": usual})


CLOUD_HOSTS = (".tmprl.cloud", ".api.temporal.io")
CADENCE_VARIABLES = {
    "lost_worker_seconds": "PERDURE_LOST_WORKER_SECONDS",
    "stream_seconds": "PERDURE_STREAM_SECONDS",
}


def is_cloud(target: str) -> bool:
    """Return whether `host:port` is an address of Temporal Cloud."""
    return target.rpartition(":")[0].lower().endswith(CLOUD_HOSTS)


def with_cadence(
    options: Options, target: str, environment: Mapping[str, str] | None = None
) -> Options:
    """Return the options of a run on the server at `target`, with the cadence filled in if they
    leave it open.

    The environment's variables set it, else on Temporal Cloud `CLOUD_INTERVALS`; elsewhere it is
    not recorded, which stands for `OWN_SERVER_INTERVALS`. Raises ConfigurationError for a variable
    that is not such a number of seconds.
    """
    given = os.environ if environment is None else environment
    usual = CLOUD_INTERVALS._asdict() if is_cloud(target) else {}
    said = {
        name: given[variable] for name, variable in CADENCE_VARIABLES.items() if given.get(variable)
    }
    open = {
        name: value for name, value in {**usual, **said}.items() if getattr(options, name) is None
    }
    if not open:
        return options
    try:
        read = RunOptions.model_validate(open)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        variable = CADENCE_VARIABLES[str(first["loc"][0])]
        raise ConfigurationError(
            f"{variable}={first['input']!r}: {first['msg']}; give a number of seconds"
        ) from error
    return options.model_copy(update={name: getattr(read, name) for name in open})


def called_options(options: Options, caller: Agent, called: Agent) -> Options:
    """Options of a called run: the caller's `options`, and those of the called agent's file.

    The settings of the caller's own file do not apply to the called run, except budgets, depth and
    grace, of which the lower value counts. Raises LoadError as `options_for` does.
    """
    of_caller, own = _options_in_file(caller), _options_in_file(called)
    fields = RunOptions.model_fields
    update = {
        name: fields[name].get_default()
        for name, value in of_caller.items()
        if getattr(options, name) == value
    }
    update.update(own)
    for name in BUDGETS:
        update[name] = least(getattr(options, name), own.get(name))
    for name in (
        "instructions_by",
        "instructions_replaced",
    ):  # These belong to the called agent, for any caller.
        update[name] = own.get(name, fields[name].get_default())
    if "on_failure" not in own:
        update.pop("on_failure", None)
    update["prepare_tools"] = own.get("prepare_tools")
    update["webhooks"] = distinct_webhooks(options.webhooks, own.get("webhooks", ()))
    for name in ("max_depth", "cancel_grace"):
        update[name] = least(getattr(options, name), own.get(name))
    return options.model_copy(update=update)


def options_after_handoff(
    options: Options, before: Agent, after: Agent, given: Collection[str]
) -> Options:
    """Options of a run that continues as the agent `after`: those of its file, except the options
    that belong to the run.

    The options that its caller has `given` stay. Raises LoadError as `options_for` does.
    """
    kept = {name: getattr(options, name) for name in (*OF_A_RUN, *given)}
    return called_options(options, before, after).model_copy(update=kept)


def least(*limits: float | None) -> Any:
    """Return the lowest of the limits; None, which stands for no limit, if there is none."""
    return min((limit for limit in limits if limit is not None), default=None)


def session_settings(agent: Agent) -> SessionSettings:
    """Return the settings of the agent's file for its sessions. Raises LoadError for a wrong
    setting.
    """
    return settings_of(agent).session


def context_messages(agent: Agent, environment: Mapping[str, str] = _NO_VARIABLES) -> int:
    """Return how many messages of the conversation a call of another agent takes along.

    Raises as `options_for` does.
    """
    settings = settings_of(agent)
    if settings.context_messages is not None:
        return settings.context_messages
    system = system_of(settings.system or TOOLS_IN_TEXT)
    return _of_environment(lambda: system.context_messages(environment))


def settings_of(agent: Agent) -> Settings:
    """Return all settings of the agent's file for the options of its runs. Raises LoadError for a
    wrong setting.
    """
    settings = _settings_in(agent.metadata)
    for problem in settings.problems:
        if problem.is_fatal:
            raise LoadError(f"{'.'.join(problem.place)}: {problem.text}")
    return settings


def setting_problems(metadata: object) -> Iterator[SettingProblem]:
    """Yield the settings in a file's metadata that are wrong or have no effect."""
    if isinstance(metadata, Mapping):
        yield from _settings_in(metadata).problems
        for name in metadata:
            # Any other tool may use a name of one word.
            if name in OPTION_NAMES and name != name.lower():
                yield SettingProblem(
                    ("metadata", name),
                    f"has no effect there: write metadata.perdure.{name}",
                    is_fatal=False,
                )


def _options_in_file(agent: Agent) -> dict[str, Any]:
    settings = settings_of(agent)
    return {**settings.usual, **settings.chosen}


def _settings_in(metadata: Mapping[str, Any] | None) -> Settings:
    """Read the settings of another system, then perdure's own; mistakes become the result's
    `problems`.
    """
    settings, blocks = Settings(), metadata or {}
    found = [name for name in SYSTEMS if name in blocks]
    if len(found) > 1:
        text = (
            f"the agent has settings of {system_of(found[0]).title} too: expected those of one "
            "system"
        )
        settings.refuse(("metadata", found[1]), text)
        return settings
    for name in found:
        settings.system = name
        value = blocks[name] if blocks[name] is not None else {}
        read_map(value, ("metadata", name), system_of(name).readers(settings), settings)
    if blocks.get("perdure") is not None:
        _read_own(blocks["perdure"], settings)
    if settings.chosen.get("tool_protocol", "native") != "native":
        settings.system = settings.system or TOOLS_IN_TEXT
    if settings.system:
        settings.usual.update(system_of(settings.system).usual)
    return settings


def _read_own(value: object, settings: Settings) -> None:
    """Read the settings under perdure's own names. The declarations of tools read those of called
    agents.
    """
    place: Place = ("metadata", "perdure")
    known = ("agents", "handoffs", "output", "session", *OPTION_NAMES)
    if not isinstance(value, Mapping):
        text = f"expected a map of settings ({', '.join(known)}), got {value!r:.80}"
        settings.refuse(place, text)
        return
    for name, entry in value.items():
        where = (*place, str(name)[:MAX_NAME])
        if name in OPTION_NAMES:
            settings.choose(where, OPTION_NAMES[name], entry)
        elif name == "session":
            _read_session(entry, where, settings)
        elif name == "output" and not isinstance(entry, Mapping):
            settings.refuse(where, f"{entry!r:.80}: expected a property, such as {{kind: array}}")
        elif name in _OF_THE_START:
            settings.refuse(where, "not a setting of an agent's file: set it when you start a run")
        elif name not in known:
            in_session = f"expected in metadata.perdure.session: {{{name}: …}}"
            is_in_session = name in map(to_camel, SessionSettings.model_fields)
            settings.refuse(where, in_session if is_in_session else unknown(str(name), known))


def _read_session(value: object, place: Place, settings: Settings) -> None:
    try:
        settings.session = SessionSettings.model_validate(value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            where = (*place, *map(str, detail["loc"]))
            settings.refuse(where, f"{detail['input']!r:.80}: {detail['msg']}")


def _environment(settings: Settings, environment: Mapping[str, str]) -> dict[str, Any]:
    name = settings.system
    return _of_environment(lambda: system_of(name).options(environment)) if name else {}


Found = TypeVar("Found")


def _of_environment(read: Callable[[], Found]) -> Found:
    try:
        return read()
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
