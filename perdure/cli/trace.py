"""`perdure trace`: print the trace of a run, write it, or send it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from opentelemetry.sdk.trace import ReadableSpan

from ..private_files import make_private_folder, write_private
from ..text import count_of
from ..trace.content import captures_content
from ..trace.environment import DeliveryError, send
from ..trace.html import to_html
from ..trace.otlp import to_otlp_json, write_tracy
from ..trace.text import lines
from . import shared_options as options
from .app import PlainCommand
from .command import execute, use_command_class
from .console import answer, say
from .problems import Failure, UsageProblem
from .recorded_run import open_run, waiting_shown

BY_ENVIRONMENT = "-"
"""What stands after `--send` where no endpoint does."""
_AN_ADDRESS = re.compile(r"://|^(localhost|[\w-]+(\.[\w-]+)+):\d+(/|$)")
"""A URL, or what was meant as one: a host and a port."""


class CommandThatSends(PlainCommand):
    """Takes `--send` with and without a URL after it."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """As `PlainCommand.parse_args`."""
        followed = zip(args, [*args[1:], ""], strict=True)
        completed = [
            f"--send={BY_ENVIRONMENT}"
            if word == "--send" and not _AN_ADDRESS.search(next_word)
            else word
            for word, next_word in followed
        ]
        return super().parse_args(ctx, completed)


@dataclass(frozen=True)
class Outputs:
    """Forms in which the trace is wanted; none of them means the tree."""

    as_json: bool
    html: Path | None
    tracy: str | None
    endpoint: str | None


@use_command_class(CommandThatSends)
def trace(
    id: options.RunId,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write OTLP/JSON, for collectors and viewers.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page that needs nothing else."),
    ] = None,
    tracy: Annotated[
        str | None,
        typer.Option(
            "--tracy", metavar="FILE|DIR/", help="Write a .tracy file, for Prompty's viewer."
        ),
    ] = None,
    send: Annotated[
        str | None,
        typer.Option(
            "--send",
            metavar="[URL]",
            help="Send it by OTLP/HTTP; URL: OTEL_EXPORTER_OTLP_ENDPOINT, else port 4318.",
        ),
    ] = None,
    content: Annotated[
        bool,
        typer.Option(
            "--content",
            help="With messages, arguments and results, without the secrets that are known.",
        ),
    ] = False,
    children: Annotated[
        bool, typer.Option("--children/--no-children", help="With the runs that it has called.")
    ] = True,
) -> None:
    """Print, write or send the OpenTelemetry trace of a run.

    It is read from the history, so any run has one, whether its worker exported spans or not; the
    spans and their ids are the same. The trace of a run that has not ended says so.
    """
    execute(_trace(id, Outputs(as_json, html, tracy, send), content=content, children=children))


async def _trace(run_id: str, outputs: Outputs, *, content: bool, children: bool) -> None:
    async with open_run(run_id) as (_, handle):
        run_id = handle.id
        with waiting_shown():
            spans = await handle.trace(content=content or captures_content(), children=children)
    if outputs == Outputs(False, None, None, None):
        for line in lines(spans):
            answer(line)
    if outputs.as_json:
        _print_json(spans)
    if outputs.html:
        _write(outputs.html, spans, lambda path: _write_page(path, spans, run_id))
    if outputs.tracy:
        is_folder = outputs.tracy.endswith(os.sep)
        _write(
            Path(outputs.tracy), spans, lambda path: _write_tracy(path, spans, is_folder=is_folder)
        )
    if outputs.endpoint:
        await _send(spans, None if outputs.endpoint == BY_ENVIRONMENT else outputs.endpoint)


def _print_json(spans: Sequence[ReadableSpan]) -> None:
    answer(to_otlp_json(spans))


def _write(path: Path, spans: Sequence[ReadableSpan], write: Callable[[Path], Path]) -> None:
    try:
        written = write(path)
    except OSError as error:
        raise UsageProblem(
            f"{str(path)!r} can't be written: {error.strerror}. Expected a file that can be"
        ) from error
    say(f"{count_of(len(spans), 'span')}: {written}")


def _write_page(path: Path, spans: Sequence[ReadableSpan], run_id: str) -> Path:
    write_private(path, to_html(spans, run_id))
    return path


def _write_tracy(path: Path, spans: Sequence[ReadableSpan], *, is_folder: bool) -> Path:
    if is_folder:
        make_private_folder(path)
    return write_tracy(spans, path)


async def _send(spans: Sequence[ReadableSpan], endpoint: str | None) -> None:
    try:
        url = await asyncio.to_thread(send, spans, endpoint)
    except DeliveryError as error:
        raise Failure(str(error)) from error
    say(f"{count_of(len(spans), 'span')} sent to {url}")
