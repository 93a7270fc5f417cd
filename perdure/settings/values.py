"""Reads the settings of an agent's file, map by map, and notes each wrong value with its place.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ..json_types import JsonObject
from ..options import MAX_SECONDS, MIN_SECONDS, RunOptions
from ..text import did_you_mean

Place = tuple[str, ...]
MAX_NAME = 80
"""The most characters that an error shows of an unknown name."""
CHARS_PER_TOKEN = 4
"""The conversion of limits in tokens: a token is about this many characters of English text."""


class SettingProblem(NamedTuple):
    """A problem of one setting."""

    place: Place
    """The path from the top of the file."""
    text: str
    is_fatal: bool = True
    """Whether it prevents runs; otherwise the setting has no effect."""


class SessionSettings(BaseModel):
    """The settings of an agent's file for its sessions; None for one that it leaves open."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    idle_timeout: float | None = Field(default=None, ge=MIN_SECONDS, le=MAX_SECONDS)
    """Seconds."""
    while_busy: Literal["steer", "queue", "reject"] | None = None


@dataclass
class Settings:
    """The settings of an agent's file for its runs."""

    chosen: JsonObject = field(default_factory=dict)
    """Fields of `RunOptions` that it sets."""
    usual: JsonObject = field(default_factory=dict)
    """The defaults of the agent's system."""
    system: str | None = None
    """The key of that system, one of `foreign.SYSTEMS`."""
    context_messages: int | None = None
    """How many messages of the conversation a called agent gets; None if the file leaves it
    open."""
    session: SessionSettings = field(default_factory=SessionSettings)
    problems: list[SettingProblem] = field(default_factory=list)

    def refuse(self, place: Place, text: str) -> None:
        """Note a problem that prevents runs."""
        self.problems.append(SettingProblem(place, text))

    def warn(self, place: Place, text: str) -> None:
        """Note that a setting has no effect."""
        self.problems.append(SettingProblem(place, text, is_fatal=False))

    def choose(self, place: Place, option: str, value: object) -> None:
        """Set a field of `RunOptions`, if it can have the value; otherwise note why it can't."""
        try:
            self.chosen[option] = option_value(option, value)
        except ValueError as error:
            self.refuse(place, str(error))


def option_value(name: str, value: object) -> Any:
    """The value as the type of the field of `RunOptions`; also reads the text of an environment
    variable.

    Raises ValueError, which shows the value and the expected type.
    """
    is_switch = RunOptions.model_fields[name].annotation is bool
    if isinstance(value, bool) and not is_switch:
        raise ValueError(f"{value!r}: expected a number or a text, not true or false")
    require_set(value)
    try:
        return getattr(RunOptions.model_validate({name: value}), name)
    except ValidationError as error:
        text = error.errors()[0]["msg"]
        raise ValueError(f"{value!r:.80}: {text[:1].lower()}{text[1:]}") from None


def require_set(value: object) -> None:
    """Raises ValueError for a reference to an environment variable that is not set here."""
    if isinstance(value, str) and value.startswith("${env:"):
        raise ValueError(
            f"{value!r:.80}: this environment variable is not set where the run is started"
        )


def whole_number(value: object, *, least: int = 1) -> int:
    """Return the number, also from an environment variable's text. Raises ValueError for anything
    else, and below `least`.
    """
    require_set(value)
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.isdecimal() and len(text) <= 15:
        text = int(text)
    if not isinstance(text, int) or isinstance(text, bool) or text < least:
        raise ValueError(f"{value!r:.80}: expected a whole number, at least {least}")
    return text


def read_map(
    value: object,
    place: Place,
    readers: Mapping[str, Callable[[Any, Place], None]],
    settings: Settings,
) -> None:
    """Pass each entry of a map to the reader of its name; notes unknown names, and the readers'
    errors.
    """
    if not isinstance(value, Mapping):
        settings.refuse(
            place, f"expected a map of settings ({', '.join(readers)}), got {value!r:.80}"
        )
        return
    for name, entry in value.items():
        where = (*place, str(name)[:MAX_NAME])
        if name not in readers:
            settings.refuse(where, unknown(str(name), readers))
            continue
        try:
            readers[name](entry, where)
        except ValueError as error:
            settings.refuse(where, str(error))


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the message about an unknown name, with the most similar known one."""
    known = list(known)
    if len(name) > MAX_NAME:
        return f"unknown setting {name!r:.80}…: expected {', '.join(known)}"
    lower = {each.lower().replace("_", ""): each for each in known}
    near = lower.get(name.lower().replace("_", "").replace("-", ""))
    hint = f" (did you mean {near!r}?)" if near else did_you_mean(name, known)
    return f"unknown setting {name!r}{hint}. Expected {', '.join(known)}"
