"""A tool for `perdure serve --tools`, whose calls another system finishes; its tokens are written
into files.
"""

from __future__ import annotations

import os
from pathlib import Path

from perdure import ToolContext, tool


@tool(approval="always")
def order(context: ToolContext) -> str:
    """Order something."""
    token = context.later()
    with (Path(os.environ["TEST_ORDERS"]) / context.run_id).open("a", encoding="utf-8") as file:
        file.write(f"{token}\n")
    return token
