"""Maps the settings of agents from Octopus or KAOS to options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from ..json_types import JsonObject, JsonView
from ..settings.foreign import Reader, System
from ..settings.values import CHARS_PER_TOKEN, Place, Settings, option_value, read_map, whole_number

OCTOPUS_LIMIT_TEXT = "I was unable to complete this task within the allowed steps."
KAOS_LIMIT_TEXT = "Reached maximum reasoning steps ({max_iterations})"
KAOS_CONTEXT_MESSAGES = 6
KAOS_MAX_STEPS = "AGENTIC_LOOP_MAX_STEPS"
"""The environment variable that replaces `max_steps` if an agent's file does not set it."""
KAOS_CONTEXT_LIMIT = "MEMORY_CONTEXT_LIMIT"

OCTOPUS_USUAL: JsonView = MappingProxyType(
    {
        "max_iterations": 10,
        "tool_timeout": 30.0,
        "parallel_tool_calls": True,
        "max_result": 2000 * CHARS_PER_TOKEN,
        "on_limit": "partial",
        "limit_message": OCTOPUS_LIMIT_TEXT,
        "cancel_grace": 0.0,
        "trim_to": 1.0,
    }
)
KAOS_USUAL: JsonView = MappingProxyType(
    {
        "max_iterations": 5,
        "on_limit": "partial",
        "limit_message": KAOS_LIMIT_TEXT,
        "progress": True,
        "tool_protocol": "json",
    }
)

PRUNING = "PruningStrategy"
TRUNCATOR = "ToolResultTruncator"
_STRATEGIES: Mapping[str, str] = MappingProxyType(
    {
        "FIFO": "",
        "Summarize": "leave this setting out, and name a compactor that the workers have, which "
        "summarises dropped messages (RunOptions.compactor, --compactor)",
        "SlidingWindow": "perdure limits the size of a conversation, not its number of messages: "
        "expected FIFO, with MaxWorkingMemoryTokens and MinHistoryMessages",
    }
)
_TOOL_PROTOCOLS: Mapping[str, str] = MappingProxyType(
    {"auto": "auto", "native": "native", "string": "json"}
)


class OctopusSettings(System):
    """Settings of `metadata.octopus`."""

    title = "Octopus"
    usual = OCTOPUS_USUAL

    def readers(self, settings: Settings) -> dict[str, Reader]:
        option = partial(_option, settings)
        return {
            "MaxToolIterations": option("max_iterations"),
            "ToolTimeoutSeconds": option("tool_timeout"),
            "ParallelToolExecution": option("parallel_tool_calls"),
            TRUNCATOR: partial(_read_truncator, settings),
            "MaxWorkingMemoryTokens": option("context_budget", in_tokens=True),
            "MinHistoryMessages": partial(_read_history_messages, settings),
            PRUNING: partial(_read_pruning, settings),
            "mcpServers": _accept_tools,
        }


def _accept_tools(value: object, place: Place) -> None:
    """Not an option of runs: loading has already added these servers to the agent's tools."""


def _read_truncator(settings: Settings, value: object, place: Place) -> None:
    """Take a number of tokens, or a map with one."""
    read = _option(settings, "max_result", in_tokens=True)
    if isinstance(value, Mapping):
        read_map(value, place, {"maxTokens": read}, settings)
    else:
        read(value, place)


def _read_history_messages(settings: Settings, value: object, place: Place) -> None:
    """Set the number of messages that trimming keeps: at least two, as in Octopus."""
    settings.choose(place, "keep_messages", max(2, whole_number(value, least=0)))


def _read_pruning(settings: Settings, value: object, place: Place) -> None:
    if (why := _STRATEGIES.get(str(value))) is None:
        raise ValueError(f"{value!r:.80}: expected {', '.join(_STRATEGIES)}")
    if why:
        raise ValueError(f"{value}: {why}")


class KaosSettings(System):
    """Settings of `metadata.kaos`, and those of a KAOS environment."""

    title = "KAOS"
    usual = KAOS_USUAL
    has_peers = True

    def readers(self, settings: Settings) -> dict[str, Reader]:
        steps = _option(settings, "max_iterations")
        context = partial(_read_context_messages, settings)
        return {
            "max_steps": steps,
            "reasoningLoopMaxSteps": steps,
            "memory_context_limit": context,
            "memory": partial(_read_memory, settings),
            "toolCallMode": partial(_read_tool_call_mode, settings),
            "tool_call_mode": partial(_read_tool_call_mode, settings),
        }

    def options(self, environment: Mapping[str, str]) -> JsonObject:
        written = environment.get(KAOS_MAX_STEPS, "").strip()
        return {"max_iterations": _of_variable(KAOS_MAX_STEPS, written, least=1)} if written else {}

    def context_messages(self, environment: Mapping[str, str]) -> int:
        written = environment.get(KAOS_CONTEXT_LIMIT, "").strip()
        return (
            _of_variable(KAOS_CONTEXT_LIMIT, written, least=0) if written else KAOS_CONTEXT_MESSAGES
        )


def _read_tool_call_mode(settings: Settings, value: object, place: Place) -> None:
    if (protocol := _TOOL_PROTOCOLS.get(str(value))) is None:
        raise ValueError(f"{value!r:.80}: expected {', '.join(_TOOL_PROTOCOLS)}")
    settings.choose(place, "tool_protocol", protocol)


def _read_context_messages(settings: Settings, value: object, place: Place) -> None:
    settings.context_messages = whole_number(value, least=0)


def _read_memory(settings: Settings, value: object, place: Place) -> None:
    """Read `metadata.kaos.memory`: of its five keys only `contextLimit` has an effect."""

    def ignore(value: object, place: Place) -> None:
        settings.warn(
            place,
            "has no effect: a session keeps all of its events, as long as the server keeps its "
            "runs",
        )

    ignored = dict.fromkeys(("enabled", "type", "maxSessions", "maxSessionEvents"), ignore)
    context = partial(_read_context_messages, settings)
    read_map(value, place, {"contextLimit": context, **ignored}, settings)


def _of_variable(name: str, value: str, *, least: int) -> int:
    try:
        return whole_number(value, least=least)
    except ValueError as error:
        raise ValueError(f"environment variable {name}: {error}") from None


def _option(settings: Settings, name: str, *, in_tokens: bool = False) -> Reader:
    """Return a reader that sets a field of `RunOptions`; it refuses conflicting values from two
    names.
    """

    def read(value: object, place: Place) -> None:
        found = option_value(name, whole_number(value) * CHARS_PER_TOKEN if in_tokens else value)
        if settings.chosen.get(name, found) != found:
            raise ValueError(
                f"{value!r:.80}: another setting there is {settings.chosen[name]!r} of the same"
            )
        settings.chosen[name] = found

    return read
