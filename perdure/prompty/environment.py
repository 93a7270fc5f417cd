"""Environment references: how they are written, what they stand for, which names are secrets' (§2.10, §15)."""

from __future__ import annotations

import os
import re

ENV_REFERENCE = re.compile(r"\$\{env:([^:}]*)(?::(.*))?\}", re.DOTALL)
_SECRET = re.compile(r"secret|password|api_?key|auth(?!or(?!iz))|token(?!s|iz)|credential|cookie", re.IGNORECASE)


def is_env_reference(text: str) -> bool:
    """Whether the whole string is one `${env:NAME}` or `${env:NAME:default}`."""
    return ENV_REFERENCE.fullmatch(text) is not None


def env_name(reference: str) -> str:
    """The NAME of an environment reference."""
    match = ENV_REFERENCE.fullmatch(reference)
    return match[1] if match else ""


def env_default(reference: str) -> str | None:
    """What is written after the second colon, colons included; an empty default counts as none."""
    match = ENV_REFERENCE.fullmatch(reference)
    return (match[2] or None) if match else None


def env_value(reference: str) -> str | None:
    """The variable's value, else the default, else None."""
    return os.environ.get(env_name(reference), env_default(reference))


def is_secret_key(name: str) -> bool:
    """Whether a value under this key is redacted wherever it would be shown or recorded (§15, §18-11)."""
    return _SECRET.search(name) is not None
