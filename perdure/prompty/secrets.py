"""Tells secrets by where they stand in an asset, and reads the environment references that keep them out of it."""

from __future__ import annotations

import os
import re

from .places import Place, last_name

LITERAL_SECRET = (
    "is a secret itself, which every run would record: write `${env:NAME}` there and set NAME where the worker runs"
)
_NO_SECRETS = frozenset({"authenticationMode", "tokenUrl"})
_SECRET = re.compile(r"secret|password|api_?key|auth(?!or(?!iz))|token(?!s|iz)|credential|cookie", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"://[^/?#@\s:]*:[^/?#@\s]+@")
_ENV_REFERENCE = re.compile(r"\$\{env:([^:}]*)(?::(.*))?\}", re.DOTALL)


def is_resolved_late(place: Place) -> bool:
    """Whether an environment reference at that place is recorded as it is written, and resolved where it is used.

    So it is within connections and options of the model and of tools, and under every key that names a secret, but
    never for a `kind`, which decides what the rest means.
    """
    if place[0] not in ("model", "tools", "metadata") or place[-1] == "kind" or "parameters" in place:
        return False
    if place[0] == "metadata":
        return is_secret_key(last_name(place))
    if "connection" in place or "additionalProperties" in place:
        return True
    return (place[0] == "tools" and "options" in place) or is_secret_key(last_name(place))


def is_literal_secret(place: Place, text: str) -> bool:
    """Whether `text` at that place is a secret itself, as opposed to a reference to one."""
    if place[0] not in ("model", "tools", "metadata") or "parameters" in place or "bindings" in place:
        return False
    if not text.strip() or is_env_reference(text):
        return False
    name = last_name(place)
    return (is_secret_key(name) and name not in _NO_SECRETS) or _URL_PASSWORD.search(text) is not None


def is_secret_key(name: str) -> bool:
    """Whether a value under this key is a secret, to be redacted wherever it is shown or recorded (§15, §18-11)."""
    return _SECRET.search(name) is not None


def is_env_reference(text: str) -> bool:
    """Whether the whole string is one `${env:NAME}` or `${env:NAME:default}`."""
    return _ENV_REFERENCE.fullmatch(text) is not None


def env_name(reference: str) -> str:
    """The NAME in `${env:NAME}`; "" for a string that is not an environment reference."""
    match = _ENV_REFERENCE.fullmatch(reference)
    return match[1] if match else ""


def env_default(reference: str) -> str | None:
    """The default in `${env:NAME:default}`, which may contain colons; None for none, or an empty one."""
    match = _ENV_REFERENCE.fullmatch(reference)
    return (match[2] or None) if match else None


def env_value(reference: str) -> str | None:
    """The value of the reference's variable, else its default, else None."""
    return os.environ.get(env_name(reference), env_default(reference))
