"""Turns `--input name=value` and `--inputs-json FILE` into inputs of the kinds that the agent declares."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .problems import UsageProblem

if TYPE_CHECKING:
    from ..agent import Agent

_MEDIA = ("image", "audio", "file")


def read_inputs(agent: Agent, pairs: Sequence[str], json_file: Path | None) -> dict[str, Any]:
    """The inputs by name; a pair wins over the file. Raises `UsageProblem`, which names the option that is wrong."""
    inputs = _read_json_file(json_file) if json_file else {}
    kinds = {declared.name: declared.kind for declared in agent.inputs or []}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise UsageProblem(f"--input {pair!r}: expected name=value or name=@file, such as {_example(kinds)}")
        if kinds and name not in kinds:
            raise UsageProblem(f"--input {pair!r}: the agent has no input {name!r}, only {', '.join(kinds)}")
        inputs[name] = _value(pair, kinds.get(name, "string"), text)
    missing = [each.name for each in agent.inputs or [] if each.required and each.default is None]
    if missing := [name for name in missing if name not in inputs]:
        raise UsageProblem(
            f"the agent {agent.name!r} needs {', '.join(missing)}. Type: " + " ".join(f"--input {n}=…" for n in missing)
        )
    return inputs


def _read_json_file(path: Path) -> dict[str, Any]:
    try:
        inputs = json.loads(_read(f"--inputs-json {str(path)!r}", path))
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
        path = Path(text[1:]).expanduser()
        if kind in _MEDIA:
            return _data_uri(pair, path)
        text = _read(f"--input {pair!r}", path).decode("utf-8", "replace")
    if kind == "string" or kind in _MEDIA:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        if kind == "union":
            return text
        raise UsageProblem(f"--input {pair!r}: expected a value of kind {kind} as JSON ({error})") from error


def _data_uri(pair: str, path: Path) -> str:
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{media_type};base64,{base64.b64encode(_read(f'--input {pair!r}', path)).decode()}"


def _read(option: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageProblem(f"{option}: the file can't be read ({error.strerror}). Expected its path.") from error


def _example(kinds: Mapping[str, str]) -> str:
    return f"{next(iter(kinds), 'question')}=…"
