"""The settings with which Temporal's dev server is started: fast, and durable."""

from __future__ import annotations

from pathlib import Path

from ...protocol import search_attributes

FAST = (
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    'history.timerProcessorMaxTimeShift="10ms"',
)
"""Dynamic configuration: without it the server dispatches 20 tasks per second and rounds timers up to 1 s."""

FAIR = "matching.enableFairness=true"
"""Dynamic configuration: workers serve the tenants of waiting runs in turn; without it, in the order of arrival."""

POLL_SECONDS = 5.0
SHORT_POLLS = f'matching.longPollExpirationInterval="{POLL_SECONDS:g}s"'
"""Dynamic configuration: how often a worker asks for tasks anew, which is all that tells of one that has ended."""

_SQLITE = ("journal_mode=wal", "synchronous=1")
"""A commit survives the end of the process, as it does by default; a power cut may undo the last ones."""


def dynamic_config(*settings: str) -> list[str]:
    """The command-line arguments that set `key=value` pairs of dynamic configuration."""
    return [argument for setting in settings for argument in ("--dynamic-config-value", setting)]


def dev_server_arguments(database: Path, *, port: int, ui_port: int, codec_endpoint: str = "") -> list[str]:
    """The arguments with which the Temporal CLI serves `database`, and the UI, on the loopback interface.

    `codec_endpoint` is where the UI has payloads decoded.
    """
    attributes = [f"{key.name}={_type_name(key.indexed_value_type.name)}" for key in search_attributes.ALL]
    return [
        *("server", "start-dev", "--ip", "127.0.0.1"),
        *("--port", str(port), "--ui-port", str(ui_port), "--ui-disable-news-fetch"),
        *(("--ui-codec-endpoint", codec_endpoint) if codec_endpoint else ()),
        *("--db-filename", str(database)),
        *(word for pragma in _SQLITE for word in ("--sqlite-pragma", pragma)),
        *(word for attribute in attributes for word in ("--search-attribute", attribute)),
        *dynamic_config(*FAST, FAIR, SHORT_POLLS),
        *("--log-level", "error", "--disable-config-file", "--disable-config-env"),
    ]


def _type_name(value_type: str) -> str:
    """The CLI's spelling of an attribute's type: `KEYWORD_LIST` → `KeywordList`."""
    return value_type.title().replace("_", "")
