"""Completes ids in a shell, from a server that answers at once."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

SECONDS = 2.0
"""The longest wait after a press of the tab key."""
LIMIT = 30


def complete_ids(
    kind: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]] | None:
    """Return a function that completes ids of `runs`, `open runs` or `sessions`; None for ""."""

    def complete(
        ctx: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        import asyncio  # `perdure --help` starts without it

        try:
            return asyncio.run(asyncio.wait_for(_find(kind, incomplete), SECONDS))
        except Exception:
            # Shell completion must write nothing.
            return []

    return complete if kind else None


async def _find(kind: str, incomplete: str) -> list[CompletionItem]:
    """Return the ids, newest first, each with its agent and status."""
    from ..client.connection import connect, environment_names_a_server
    from ..client.embedded.state import use_running
    from ..protocol.names import SESSION_WORKFLOW, WORKFLOW
    from ..protocol.search_attributes import AGENT, quote
    from .filters import Filters, word_of

    if not environment_names_a_server() and use_running() is None:
        return []  # completion starts no server
    query = Filters(
        workflow=SESSION_WORKFLOW if kind == "sessions" else WORKFLOW,
        status="running" if kind == "open runs" else None,
        where=f"WorkflowId STARTS_WITH {quote(incomplete)}" if incomplete else None,
    ).query()
    found = (await connect()).list_workflows(query, limit=LIMIT)
    return [
        CompletionItem(
            run.id, help=f"{run.typed_search_attributes.get(AGENT, 'run')}, {word_of(run.status)}"
        )
        async for run in found
    ]
