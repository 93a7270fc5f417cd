"""`perdure trace`: print the trace of a run, or write it."""

from __future__ import annotations

import os
from pathlib import Path

from ..gateway.page_file import to_html
from ..private_files import make_private_folder, write_private
from ..text import count_of
from ..trace.content import captures_content
from ..trace.otlp import to_otlp_json, write_tracy
from ..trace.text import rows
from .console import answer, say
from .given import Given
from .problems import UsageProblem
from .recorded_run import open_run, read_recorded, waiting_shown


async def trace(given: Given) -> None:
    """Print the trace, or write it in each form that is wanted.

    Raises `UsageProblem` for a file that can't be written.
    """
    page = ""
    async with open_run(given.id) as (server, handle):
        run_id, content = handle.id, given.content or captures_content()
        with waiting_shown():
            spans = await handle.trace(content=content, children=given.children)
            if given.html:
                input = (await read_recorded(server.client, run_id)).input
                events = await handle.events(children=given.children)
                page = to_html(run_id, input, events, content=content)
    count = count_of(len(spans), "span")
    if not (given.as_json or given.html or given.tracy):
        for _, row in rows(spans):
            answer(row)
    if given.as_json:
        answer(to_otlp_json(spans))
    try:
        if given.html:
            write_private(given.html, page)
            say(f"The page: {given.html}")
        if given.tracy:
            path = Path(given.tracy)
            if given.tracy.endswith(os.sep):
                make_private_folder(path)
            say(f"{count}: {write_tracy(spans, path)}")
    except OSError as error:
        raise UsageProblem(
            f"{error.filename!r} can't be written: {error.strerror}. Expected another file"
        ) from error
