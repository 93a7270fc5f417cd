"""Removes secrets from histories, events and logs: the one redactor, and the loggers that use
it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .json_types import JsonObject

if TYPE_CHECKING:
    from .agents import Agent, LoadedFrom

Value = TypeVar("Value")

REDACTED = "[REDACTED]"
SHORTEST = 16
"""A shorter value of an environment variable may be an ordinary word of the text."""
SHORTEST_OF_AGENT = 8
"""The same for values in a connection of the agent itself: a short key is still a key."""

_SECRET_VARIABLE = re.compile(
    r"API_?KEY|_KEY$|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?$|_PWD$|COOKIES?$|_AUTH$|"
    r"_AUTHORIZATION$",
    re.IGNORECASE,
)
_HEADERS_VARIABLE = re.compile(r"_HEADERS$", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"[=:]\s*(?:(?:Bearer|Basic)(?:\s+|%20))?([^,\n]+)", re.IGNORECASE)
"""In `OTEL_EXPORTER_OTLP_HEADERS` (`name=value,…`) and `OPENAI_CUSTOM_HEADERS` (`name: value`, a
line each)."""
_URL_VARIABLE = re.compile(r"URL|URI|DSN|PROXY|ENDPOINT|CONNECTION", re.IGNORECASE)
_ENV_NAME = re.compile(r"\$\{env:([^:}]*)")
_CREDENTIAL = "${credential:"
_KEYS = ("PERDURE_ENCRYPTION_KEY", "PERDURE_PUSH_KEY", "PERDURE_VOUCH_KEY")
_ENTRY = re.compile(r"(?<=:)[\w+/=-]{40,}")
_USERINFO = re.compile(r"(?<=://)[^/?#@\s\"']+(?=@)")
_LITERAL = re.compile(
    r"\bsk-[\w-]{16,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|"
    r"\bxox[abeprs]-[\w-]{10,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bhf_\w{20,}"
    # A JWT. It is searched for once in each word, for linear time: a word may consist of beginnings
    # of one.
    r"|(?<![\w-])(?=[\w-]{11,}+\.eyJ[\w-]{8,}+\.)[\w-]*?\beyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\bBearer\s+[\w.~+/=-]{16,}"
)
_QUERY_SECRET = re.compile(
    r"(?<=[?&])((?:[\w-]*(?:api[-_]?key|token|secret|password|signature)|key|sig|"
    r"code)=)([^&#\s\"']{8,})",
    re.IGNORECASE,
)
_WITHOUT_TEXT = (type(None), int, float)
_ITEMS = (list, tuple)
_CLIENT_KEYS = ("api_key", "client_secret", "auth_token", "admin_api_key", "webhook_secret")


class Secret(NamedTuple):
    """A text that must not be recorded, and its replacement."""

    value: str
    placeholder: str


_SECRET_NAME = re.compile(
    r"secret|passw|passphrase|pwd$|api[-_ ]?key|auth(?!or(?!iz))|token(?!s|iz)|credential|cookie|"
    r"bearer"
    r"|(?:access|account|license|private|shared|signing|subscription)[-_ ]?key",
    re.IGNORECASE,
)

MAX_REFERENCES = 1000
MAX_LOGGED_CHARS = 64 * 1024
"""The limit of one text for people and logs."""
_MARGIN = 8 * 1024
"""The characters cut off on each side of a gap, so that no part of a secret remains there: no
secret is longer."""

_lock = Lock()
_clients: JsonObject = {}
_references: dict[Secret, None] = {}


def is_secret_name(name: str) -> bool:
    """Return whether a value under this name is a secret, which is redacted wherever it is shown or
    recorded (§15, §18-11).
    """
    return _SECRET_NAME.search(name) is not None


def know_agent(agent: Agent) -> None:
    """Treat the values of the agent's references as secrets from now on, everywhere in this
    process.
    """
    with _lock:
        for secret in _of_agent(agent):
            _references.pop(secret, None)
            _references[secret] = None
        for oldest in list(_references)[:-MAX_REFERENCES]:
            del _references[oldest]


def know_client(name: str, client: Any) -> None:
    """Treat the keys of this client, registered under that name, as secrets from now on; None
    forgets them.
    """
    with _lock:
        if client is None:
            _clients.pop(name, None)
        else:
            _clients[name] = client


def redact(text: str, agent: Agent | None = None) -> str:
    """Return a text for people and logs, such as an error's, without known secrets and likely ones.

    `${env:NAME}` replaces the value of NAME. Likely secrets are keys in the format of a well-known
    service, user information in a URL, and keys in its query. Never raises.
    """
    text = redactor(agent).text(text)
    if "://" in text:
        text = _USERINFO.sub(REDACTED, text)
        text = _QUERY_SECRET.sub(rf"\1{REDACTED}", text)
    return _LITERAL.sub(REDACTED, text)


def redacted_excerpt(text: str, limit: int = MAX_LOGGED_CHARS) -> str:
    """Return the same for a text of any length, of which at most `limit` characters are searched
    and kept. Never raises.

    Of a longer one, three quarters are its beginning, and one quarter is its end.
    """
    if len(text) <= limit:
        return redact(text)
    start, end = redact(text[: limit * 3 // 4]), redact(text[-(limit // 4) :])
    return (
        f"{start[:-_MARGIN]}\n[… of {len(text):,} characters, the middle is left out here "
        f"…]\n{end[_MARGIN:]}"
    )


def looks_secret(text: str) -> bool:
    """Return whether the text contains a key in the format of a well-known service, or a key in the
    query of a URL.
    """
    return _LITERAL.search(text) is not None or (
        "://" in text and _QUERY_SECRET.search(text) is not None
    )


def redactor(agent: Agent | None = None) -> Redactor:
    """Return the redactor of this process's environment and registered clients, and of the agent's
    secrets.
    """
    known = (*_of_clients(), *_references, *_environment.secrets())
    return _compile(known if agent is None else (*_of_agent(agent), *known))


class Redactor:
    """Replaces known secrets, and nothing else: data stays unchanged."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        known: dict[str, str] = {}
        for secret in secrets:
            for form in _forms(secret.value):
                known.setdefault(form, secret.placeholder)
        # The longest first: one may be a part of another.
        self._known = sorted(known.items(), key=lambda item: -len(item[0]))

    def text(self, text: str) -> str:
        """Return the text without known secrets; the same object if it contains none."""
        for secret, placeholder in self._known:
            if secret in text:
                text = text.replace(secret, placeholder)
        return text

    def _bytes(self, content: bytes) -> bytes:
        for secret, placeholder in self._known:
            if (encoded := secret.encode(errors="replace")) in content:
                content = content.replace(encoded, placeholder.encode())
        return content

    def value(self, value: Value) -> Value:
        """Value without known secrets in any of its strings, however deep; the same object if there
        are none.

        It may be a pydantic model, or nested maps and lists.
        """
        return self._clean(value) if self._known else value

    def _clean(self, value: Value) -> Value:
        changed: Any = value
        if isinstance(value, str):
            changed = self.text(value)
        elif isinstance(value, _WITHOUT_TEXT):
            pass
        elif isinstance(value, bytes):
            changed = self._bytes(value)
        elif isinstance(value, _ITEMS):
            items = [self._clean(child) for child in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            changed = value if same else items if isinstance(value, list) else tuple(items)
        elif isinstance(value, BaseModel):
            changes = {name: new for name, old in value if (new := self._clean(old)) is not old}
            changed = value.model_copy(update=changes) if changes else value
        elif isinstance(value, Mapping):
            pairs = {self._clean(key): self._clean(child) for key, child in value.items()}
            same = all(pairs.get(key) is child for key, child in value.items())
            changed = value if same else pairs
        result: Value = changed
        return result

    def encoded(self, value: Any) -> Any:
        """Like `value`, for any value of a payload converter: a dataclass with a secret becomes its
        JSON form.
        """
        known = self.value(value)
        try:
            written = to_jsonable_python(known)
        except (ValueError, RecursionError):
            return known
        clean = self.value(written)
        return known if clean is written else clean


class _Environment:
    """The secrets of the environment, collected again after one of its variables was set, changed
    or removed.
    """

    def __init__(self) -> None:
        self._read: tuple[object, tuple[Secret, ...]] = (None, ())

    def secrets(self) -> tuple[Secret, ...]:
        """Return the present secrets."""
        # The raw content of `os.environ`: comparing it takes a microsecond, decoding it fifty.
        held = getattr(os.environ, "_data", None)
        before, found = self._read
        if held is None or held != before:
            # The copy comes first: it then differs from a variable that changes meanwhile.
            before, found = held and dict(held), _of_environment(_secret_variables())
            self._read = before, found
        return found


_environment = _Environment()


def _secret_variables() -> Iterator[tuple[str, str]]:
    for name in sorted(os.environ):
        if _may_hold_secret(name) and len(value := os.environ.get(name, "")) >= SHORTEST:
            yield name, value


@lru_cache(maxsize=1024)
def _may_hold_secret(name: str) -> bool:
    return any(kind.search(name) for kind in (_SECRET_VARIABLE, _URL_VARIABLE, _HEADERS_VARIABLE))


def _of_environment(variables: Iterable[tuple[str, str]]) -> tuple[Secret, ...]:
    found: list[Secret] = []
    for name, value in variables:
        if _SECRET_VARIABLE.search(name):
            found.append(Secret(value, f"${{env:{name}}}"))
        if _HEADERS_VARIABLE.search(name):
            for given in map(str.strip, _HEADER_VALUE.findall(value)):
                forms = {given, _percent_decoded(given)}
                found += [
                    Secret(form, f"${{env:{name}}}")
                    for form in forms
                    if len(form) >= SHORTEST_OF_AGENT
                ]
        if name in _KEYS:
            found += [Secret(key, REDACTED) for key in _ENTRY.findall(value)]
        found += _in_url(value, SHORTEST)
    return tuple(found)


@lru_cache(maxsize=16)
def _compile(secrets: tuple[Secret, ...]) -> Redactor:
    return Redactor(secrets)


def _of_clients() -> Iterator[Secret]:
    for name, client in list(_clients.items()):
        for attribute in _CLIENT_KEYS:
            value = getattr(client, attribute, None)
            if isinstance(value, str) and len(value) >= SHORTEST_OF_AGENT:
                yield Secret(value, f"[key of connection {name!r}]")


def _of_agent(agent: Agent) -> Iterator[Secret]:
    # Not by its type: a process that only connects to a server imports no agents, and a workflow's
    # sandbox no late modules.
    known: LoadedFrom | None = getattr(agent, "_loaded_from", None)
    references = known.references if known else {}
    for pointer, reference in references.items():
        place = pointer.rpartition("/")[2]
        shortest = SHORTEST_OF_AGENT if is_secret_name(place) else SHORTEST
        if reference.text.startswith(_CREDENTIAL):
            if len(reference.value) >= SHORTEST_OF_AGENT:
                yield Secret(reference.value, reference.text)
        elif "://" in reference.value:
            yield from _in_url(reference.value, SHORTEST_OF_AGENT)
        elif len(reference.value) >= shortest and place != "endpoint":
            # Without the reference's default, which may be the secret itself.
            name = _ENV_NAME.match(reference.text)
            yield Secret(reference.value, f"${{env:{name[1]}}}" if name else REDACTED)
    connection = agent.model.connection if agent.model else None
    for literal in (connection.api_key, connection.client_secret) if connection else ():
        # A reference that is resolved elsewhere may have its value here, too.
        name = _ENV_NAME.match(literal or "")
        value = os.environ.get(name[1]) if name else literal
        if value and not value.startswith(_CREDENTIAL) and len(value) >= SHORTEST_OF_AGENT:
            yield Secret(value, f"${{env:{name[1]}}}" if name else REDACTED)


def _in_url(value: str, shortest: int) -> Iterator[Secret]:
    """Yield the user information in a URL, and keys in its query."""
    if "://" not in value:
        return
    for userinfo in _USERINFO.findall(value):
        parts = (userinfo, *userinfo.partition(":")[::2])
        yield from (Secret(part, REDACTED) for part in parts if len(part) >= shortest)
    yield from (
        Secret(match[2], REDACTED)
        for match in _QUERY_SECRET.finditer(value)
        if len(match[2]) >= shortest
    )


def _forms(value: str) -> set[str]:
    """Return the secret's forms: plain, in JSON, in a URL and in Python's errors, and as servers
    misread it.
    """
    bare = value.strip()
    in_url = "".join(map(_percent_encoded, bare))
    sent = bare.encode(errors="replace")
    in_python = {repr(bare)[1:-1], repr(sent)[2:-1], sent.decode("latin-1")}
    return {
        bare,
        json.dumps(bare)[1:-1],
        json.dumps(bare, ensure_ascii=False)[1:-1],
        in_url,
        *in_python,
    }


def _percent_decoded(text: str) -> str:
    return re.sub(
        rb"%([0-9A-Fa-f]{2})", lambda match: bytes.fromhex(match[1].decode()), text.encode()
    ).decode(errors="replace")


def _percent_encoded(character: str) -> str:
    if character.isascii() and (character.isalnum() or character in "_.-~"):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="replace"))


class WithoutSecrets(logging.Filter):
    """Redacts a record: its text and its traceback, which remains only as text (`exc_text`). Passes
    every record.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "is_redacted", False):
            return True
        try:
            text = record.getMessage()
        except Exception:
            text = str(record.msg)
        record.msg, record.args = redacted_excerpt(text), None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        record.exc_info = None
        if record.exc_text:
            record.exc_text = redacted_excerpt(record.exc_text)
        record.is_redacted = True
        return True


_without_secrets = WithoutSecrets()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of that name, whose records are redacted for every handler."""
    logger = logging.getLogger(name)
    logger.addFilter(_without_secrets)
    return logger
