"""A worker in TypeScript, in a process of its own, that knows nothing of perdure."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from .needs import node_folder

SOURCES = Path(__file__).parent / "typescript"


def node_modules() -> Path | None:
    """The folder of `NODE_PATH` that has `@temporalio/worker`; None where there is none, or no
    node.
    """
    if shutil.which("node") is None:
        return None
    return node_folder("@temporalio/worker")


@dataclass(frozen=True)
class TypeScript:
    """The compiled workflows, and the folder where the sources find their modules."""

    folder: Path

    @classmethod
    def prepared(cls, folder: Path, modules: Path) -> TypeScript:
        """Copies the sources beside the modules, and bundles the workflows."""
        shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
        (folder / "node_modules").symlink_to(modules)
        command = ["node", "run.cjs", "bundle.ts", "bundle.js"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
        return cls(folder)

    @asynccontextmanager
    async def worker(
        self, address: str, task_queue: str
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A worker that polls the queue until the block ends, or somebody kills it."""
        command = ["node", "run.cjs", "worker.ts", address, task_queue, "bundle.js"]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
