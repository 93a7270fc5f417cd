"""docs/operations/operating.md has every variable that the code reads, the server's settings, and a section
for each alert.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from perdure.client.server_settings import SERVER_SETTINGS, ServerSetting

from ..support.documents import ROOT
from .test_alerts import ALERTS

PAGE = (ROOT / "docs/operations/operating.md").read_text()
OURS = re.compile(
    r"(?:PERDURE|TEMPORAL|OTEL|OPENAI|ANTHROPIC|AZURE|MEMORY|AGENTIC|DEBUG|XDG)(?:_[A-Z0-9]+)+|NO_COLOR"
)
OF_TEMPORAL = re.compile(r"TEMPORAL_\w+")
"""Read by the SDK, for the most part."""
COMPOSED = {f"PERDURE_ALLOW_{what}" for what in ("COMMANDS", "ENV", "HOSTS", "KINDS")} | {
    "PERDURE_PUSH_KEY_FILE"
}
"""Put together in the code."""


def _constants(file: Path) -> set[str]:
    """The texts of a file that are names of variables; those in docstrings are not such texts.
    A settings model has them as fields."""
    nodes = [*ast.walk(ast.parse(file.read_text()))]
    fields = {
        node.target.id
        for node in nodes
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return fields | {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_variable_is_on_the_page_and_no_other() -> None:
    texts = set().union(*map(_constants, (ROOT / "perdure").rglob("*.py")))
    read = COMPOSED | {text for text in texts if OURS.fullmatch(text) and not text.endswith("_")}
    section = PAGE.partition("## Every variable")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    written = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert read - written == set(), "add them to the table in docs/operations/operating.md"
    assert {name for name in written - read if not OF_TEMPORAL.match(name)} == set(), (
        "nothing reads these"
    )


def test_the_settings_of_the_server_are_on_the_page() -> None:
    assert "".join(map(_row, SERVER_SETTINGS)) in PAGE


def _row(setting: ServerSetting) -> str:
    value, default = (
        str(each).lower() if isinstance(each, bool) else each
        for each in (setting.value, setting.default)
    )
    return f"| `{setting.key}` | `{value}` | `{default}` | {setting.without} |\n"


def test_each_alert_leads_to_a_section() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-")
        for line in re.findall(r"^#+ (.*)$", PAGE, re.M)
    }
    for alert in ALERTS:
        [anchor] = re.findall(
            r"docs/operations/operating\.md#([\w-]+)", alert["annotations"]["action"]
        )
        assert anchor in headings, alert["alert"]
        assert alert["alert"] in PAGE, "the section names the alert"
