"""Reads the settings of an agent's file, map by map, and notes what is wrong with them and where. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..json_types import JsonObject
from ..options import DURATION_ERROR, RunOptions
from ..text import did_you_mean

Place = tuple[str, ...]
MAX_NAME = 80
"""Characters of a name that is not known that an error shows."""
CHARS_PER_TOKEN = 4
"""How limits in tokens are taken: a token is about so many characters of English text."""


class SettingProblem(NamedTuple):
    """What is wrong with one setting."""

    place: Place
    """From the top of the file on."""
    text: str
    is_fatal: bool = True
    """Whether no run can be started so; otherwise the setting has no effect."""


@dataclass
class Settings:
    """What an agent's file says of the options of its runs."""

    chosen: JsonObject = field(default_factory=dict)
    """Fields of `RunOptions` that it sets."""
    usual: JsonObject = field(default_factory=dict)
    """Those that follow from the system that it comes from, where nobody says otherwise."""
    system: str | None = None
    """The key of that system, one of `foreign.SYSTEMS`."""
    context_messages: int | None = None
    """How many messages a called agent is told of the conversation; None where the file does not say."""
    problems: list[SettingProblem] = field(default_factory=list)

    def refuse(self, place: Place, text: str) -> None:
        """Note that no run can be started so."""
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
    """The value as the field of `RunOptions` has it, text of an environment variable included.

    Raises ValueError, which shows the value and says what is expected.
    """
    is_switch = RunOptions.model_fields[name].annotation is bool
    if isinstance(value, bool) and not is_switch:
        raise ValueError(f"{value!r}: expected a number or a text, not true or false")
    require_set(value)
    try:
        return getattr(RunOptions.model_validate({name: value}), name)
    except ValidationError as error:
        first = error.errors()[0]
        text, shown = first["msg"], "" if first["type"] == DURATION_ERROR else f"{value!r:.80}: "
        raise ValueError(f"{shown}{text[:1].lower()}{text[1:]}") from None


def require_set(value: object) -> None:
    """Raises ValueError for a reference to an environment variable that is not set here."""
    if isinstance(value, str) and value.startswith("${env:"):
        raise ValueError(f"{value!r:.80}: this environment variable is not set where the run is started")


def whole_number(value: object, *, least: int = 1) -> int:
    """Return the number; text of an environment variable is read. Raises ValueError for anything else, and for less."""
    require_set(value)
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.isdecimal() and len(text) <= 15:
        text = int(text)
    if not isinstance(text, int) or isinstance(text, bool) or text < least:
        raise ValueError(f"{value!r:.80}: expected a whole number, at least {least}")
    return text


def read_map(
    value: object, place: Place, readers: Mapping[str, Callable[[Any, Place], None]], settings: Settings
) -> None:
    """Give each entry of a map to the reader of its name; notes names that there are not, and what readers raise."""
    if not isinstance(value, Mapping):
        settings.refuse(place, f"expected a map of settings ({', '.join(readers)}), got {value!r:.80}")
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
    """Return what to say of a name that there is not, with the one that is most like it."""
    known = list(known)
    if len(name) > MAX_NAME:
        return f"unknown setting {name!r:.80}…: expected {', '.join(known)}"
    lower = {each.lower().replace("_", ""): each for each in known}
    near = lower.get(name.lower().replace("_", "").replace("-", ""))
    hint = f" (did you mean {near!r}?)" if near else did_you_mean(name, known)
    return f"unknown setting {name!r}{hint}. Expected {', '.join(known)}"
