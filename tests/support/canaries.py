"""Where secrets are planted: what an environment has, what tools say, what providers answer, what
agents contain.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.json_types import JsonObject
from perdure.messages import TextPart, ToolResult
from perdure.testing import ScriptedReply, says

CANARY = "canary-9f1c72d0"
"""All secrets contain it, so that one look finds every one."""

VARIABLES = {
    "PLANTED_API_KEY": f"sk-{CANARY}-api-key",
    "planted_token": f"{CANARY}-lower-case-token",
    "PLANTED_CLIENT_SECRET": f'{CANARY} "quoted" \\ secret/+',
    "PLANTED_DB_PASSWORD": f"{CANARY}-password-ü",
    "PLANTED_KEY": f"-----BEGIN PRIVATE KEY-----\n{CANARY}\nabc\n-----END PRIVATE KEY-----\n",
    "PLANTED_DATABASE_URL": f"postgres://user:{CANARY}-in-url@db/name?sslmode=on",
    "MY_OWN_NAME": f"{CANARY}-of-a-reference",
    "PLANTED_ENDPOINT_NAME": f"{CANARY}-option-of-a-tool",
}


def env(name: str) -> str:
    return os.environ[name]


def _raise(error: BaseException) -> Any:
    raise error


def _chained() -> Any:
    try:
        _raise(ValueError(env("PLANTED_API_KEY")))
    except ValueError as error:
        raise KeyError(env("planted_token")) from error


LEAKS: dict[str, Callable[[], Any]] = {
    "a text": lambda: f"it is {env('PLANTED_API_KEY')}!",
    "a lower-case variable": lambda: env("planted_token"),
    "a map": lambda: {"found": {"deep": [env("PLANTED_DB_PASSWORD")]}},
    "a map's key": lambda: {env("PLANTED_DB_PASSWORD"): 1},
    "escaped in JSON": lambda: json.dumps({"it": env("PLANTED_CLIENT_SECRET")}),
    "escaped in a map": lambda: {"it": env("PLANTED_CLIENT_SECRET")},
    "in a query": lambda: f"https://h/?q={CANARY}%20%22quoted%22%20%5C%20secret%2F%2B",
    "several lines": lambda: env("PLANTED_KEY"),
    "several lines as JSON": lambda: {"pem": env("PLANTED_KEY")},
    "a password in a URL": lambda: f"connecting with {CANARY}-in-url",
    "the environment": lambda: dict(os.environ),
    "a part": lambda: TextPart(value=env("PLANTED_API_KEY")),
    "parts": lambda: [TextPart(value="a"), TextPart(value=env("PLANTED_API_KEY"))],
    "a result": lambda: ToolResult.of_text(env("PLANTED_API_KEY")),
    "a failure": lambda: ToolResult.failure(env("PLANTED_API_KEY"), kind="error"),
    "an error": lambda: _raise(RuntimeError(env("PLANTED_API_KEY"))),
    "an error's key": lambda: {}[env("planted_token")],
    "an error's cause": _chained,
    "an error with a URL": lambda: _raise(OSError(f"can't reach {env('PLANTED_DATABASE_URL')}")),
    "an exit": lambda: _raise(SystemExit(env("PLANTED_API_KEY"))),
    "a reference of the agent": lambda: env("MY_OWN_NAME"),
    "an option of another tool": lambda: env("PLANTED_ENDPOINT_NAME"),
    "a registered client": lambda: f"{CANARY}-of-a-client",
}
"""What the tool does, by the place in which the secret is then."""


def _error(text: str, **more: Any) -> JsonObject:
    return {"error": {"message": text, "type": "invalid_request_error", **more}}


ANSWERS: dict[str, Callable[[], list[ScriptedReply]]] = {
    "a key in a 401": lambda: [
        ScriptedReply(status=401, error=_error(f"wrong key {env('MY_OWN_NAME')}"))
    ],
    "another key in a 401": lambda: [
        ScriptedReply(status=401, error=_error(f"wrong: {env('PLANTED_API_KEY')}"))
    ],
    "a client's key in a 401": lambda: [
        ScriptedReply(status=401, error=_error(f"wrong: {CANARY}-of-a-client"))
    ],
    "an unknown key in a 401": lambda: [
        ScriptedReply(status=401, error=_error(f"wrong: sk-proj-{CANARY}-unknown"))
    ],
    "a URL in a 404": lambda: [
        ScriptedReply(status=404, error=_error(f"https://u:{CANARY}@h/v1?key={CANARY}-q"))
    ],
    "an error of another shape": lambda: [
        ScriptedReply(status=400, error={"detail": f"no: {env('PLANTED_API_KEY')}"})
    ],
    "a request id": lambda: [
        ScriptedReply(status=401, headers={"x-request-id": env("MY_OWN_NAME")}, error=_error("no"))
    ],
    "a request id with an unknown key": lambda: [
        ScriptedReply(
            status=401, headers={"x-request-id": f"sk-proj-{CANARY}-unknown"}, error=_error("no")
        )
    ],
    "a bearer": lambda: [
        ScriptedReply(status=403, error=_error(f"bad header Bearer {CANARY}.not.known-at-all"))
    ],
    "an error that passes": lambda: [
        ScriptedReply(status=500, error=_error(f"failed for {env('MY_OWN_NAME')}")),
        says("done"),
    ],
}
"""The answers of the model, by the place in which the secret is in them."""

AGENTS: dict[str, JsonObject] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8").replace("CANARY", CANARY)
)
"""Agents that are a secret's hiding place, all refused."""
