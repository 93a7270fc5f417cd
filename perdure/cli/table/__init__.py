"""The table of all commands, by purpose, as the help lists them."""

from __future__ import annotations

from .runs import RUN_AGENTS, WATCH
from .serve import SERVE
from .work import DECIDE, WRITE

GROUPS = {
    "Run agents": RUN_AGENTS,
    "Watch them": WATCH,
    "Decide and steer": DECIDE,
    "Write agents": WRITE,
    "Serve": SERVE,
}
COMMANDS = {name: command for commands in GROUPS.values() for name, command in commands.items()}
