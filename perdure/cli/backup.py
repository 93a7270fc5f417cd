"""`perdure backup` and `restore`: copies of the embedded server's database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ..client.connection import environment_names_a_server
from ..client.embedded.backup import back_up, put_back, require_database
from ..client.embedded.state import database_of
from ..private_files import data_folder
from . import shared_options as options
from .command import execute
from .console import answer, say
from .many import require_yes
from .problems import UsageProblem

Copy = Annotated[Path, typer.Argument(metavar="FILE", help="The copy.")]


def backup(file: Copy, as_json: options.AsJson = False) -> None:
    """Copy the embedded server's database to a file, while it runs or not.

    The copy has everything recorded until then; values stored elsewhere (PERDURE_STORAGE) are not
    in it.
    """
    execute(_back_up(file, as_json))


async def _back_up(file: Path, as_json: bool) -> None:
    _require_embedded()
    size = await asyncio.to_thread(back_up, data_folder(), file)
    if as_json:
        answer(
            {
                "action": "backup",
                "file": str(file),
                "database": str(database_of(data_folder())),
                "bytes": size,
            }
        )
    say(
        f"{file} is a copy of {database_of(data_folder())}: {size:,} bytes. Put it back: perdure "
        f"restore {file}"
    )


def restore(
    file: Copy,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Replace the database without being asked.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Replace the embedded server's database with a copy; the server must not run.

    Open runs continue from their state in the copy and repeat their later work. The replaced
    database stays in the data folder under another name.
    """
    execute(_restore(file, yes, as_json))


async def _restore(file: Path, yes: bool, as_json: bool) -> None:
    _require_embedded()
    folder = data_folder()
    await asyncio.to_thread(require_database, file)
    if not yes and database_of(folder).exists():
        await require_yes(f"Replace {database_of(folder)}?", "restore")
    aside = await asyncio.to_thread(put_back, folder, file)
    if as_json:
        before = str(aside) if aside else None
        answer(
            {
                "action": "restore",
                "file": str(file),
                "database": str(database_of(folder)),
                "before": before,
            }
        )
    say(
        f"{database_of(folder)} is {file} now{f'; the one before is {aside}' if aside else ''}. "
        "Start it: perdure dev"
    )


def _require_embedded() -> None:
    if environment_names_a_server():
        raise UsageProblem(
            "TEMPORAL_ADDRESS (or a profile) names a server, whose database has its own backup: "
            "perdure docs "
            "deletion. Unset it for the embedded server"
        )
