"""Turns `--input name=value` and `--inputs-json FILE` into inputs of the kinds that the agent declares."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..media import described_content
from ..spelling import did_you_mean
from .problems import UsageProblem

if TYPE_CHECKING:
    from ..agent import Agent

_MEDIA = ("image", "audio", "file")
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "float": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "thread": (list, dict),
}


def read_inputs(agent: Agent, pairs: Sequence[str], json_file: Path | None) -> dict[str, Any]:
    """The inputs by name; a pair wins over the file. Raises `UsageProblem`, which names the option that is wrong."""
    inputs = _read_json_file(json_file) if json_file else {}
    kinds = {declared.name: declared.kind for declared in agent.inputs or []}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise UsageProblem(f"--input {pair!r}: expected name=value or name=@file, such as {_example(kinds)}")
        if kinds and name not in kinds:
            hint = did_you_mean(name, kinds)
            raise UsageProblem(f"--input {pair!r}: the agent has no input {name!r}, only {', '.join(kinds)}{hint}")
        inputs[name] = _value(pair, kinds.get(name, "string"), text)
    missing = [each.name for each in agent.inputs or [] if each.required and each.default is None]
    if missing := [name for name in missing if name not in inputs]:
        raise UsageProblem(
            f"the agent {agent.name!r} needs {', '.join(missing)}. Type: " + " ".join(f"--input {n}=…" for n in missing)
        )
    return inputs


def read_given(agent: Agent | None, pairs: Sequence[str], json_file: Path | None) -> dict[str, Any]:
    """The inputs that are given for an agent's prompt; none has to be. Raises `UsageProblem` like `read_inputs`."""
    if agent is None:
        if pairs or json_file:
            raise UsageProblem("--input: inputs are for the prompt of another agent, expected --agent with it")
        return {}
    optional = [declared.model_copy(update={"required": False}) for declared in agent.inputs or []]
    return read_inputs(agent.model_copy(update={"inputs": optional}), pairs, json_file)


def _read_json_file(path: Path) -> dict[str, Any]:
    try:
        inputs = _json(_read(f"--inputs-json {str(path)!r}", path))
    except ValueError as error:
        raise UsageProblem(f"--inputs-json {str(path)!r}: not valid JSON: {error}") from error
    if not isinstance(inputs, dict):
        raise UsageProblem(
            f"--inputs-json {str(path)!r}: expected a JSON object of inputs by name, got {type(inputs).__name__}"
        )
    return inputs


def _value(pair: str, kind: str, text: str) -> Any:
    """The value of `text`, or of the file that `@path` names, in the form that the input's kind calls for."""
    if text.startswith("@"):
        path = Path(text[1:])
        if kind in _MEDIA:
            return _media(pair, kind, path)
        text = _text(pair, _read(f"--input {pair!r}", path))
    else:
        text = _text(pair, os.fsencode(text))
    if kind == "string" or kind in _MEDIA:
        return text
    try:
        value = _json(text)
    except ValueError as error:
        if kind == "union":
            return text
        raise UsageProblem(f"--input {pair!r}: expected a value of kind {kind} as JSON ({error})") from error
    expected = _JSON_TYPES.get(kind)
    if expected and (not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected)):
        raise UsageProblem(f"--input {pair!r}: expected a value of kind {kind} as JSON, got a {type(value).__name__}")
    return value


def _json(text: str | bytes) -> Any:
    """The value. Raises ValueError for anything that is not JSON, or nests too deeply."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _text(pair: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UsageProblem(
            f"--input {pair!r}: not UTF-8 text (byte 0x{content[error.start]:02x} at position {error.start}). Expected "
            "text; an input for other data is declared with `kind: file`, image or audio"
        ) from None


def _media(pair: str, kind: str, path: Path) -> dict[str, Any]:
    name = "" if str(path) == "-" else path.name
    try:
        return described_content(kind, _read(f"--input {pair!r}", path), name=name)
    except ValueError as error:
        raise UsageProblem(f"--input {pair!r}: {error}") from error


def _read(option: str, path: Path) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.expanduser().read_bytes()
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder for `~name`
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageProblem(f"{option}: the file can't be read ({reason}). Expected its path.") from error


def _example(kinds: Mapping[str, str]) -> str:
    return f"{next(iter(kinds), 'question')}=…"
