"""The other side of tools that are no functions of the worker."""

from __future__ import annotations

import pytest

from ..support.needs import lacking
from ..support.typescript_worker import TypeScript, node_modules


@pytest.fixture(scope="session")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> TypeScript:
    """The sources in TypeScript, ready to run."""
    modules = node_modules()
    if modules is None:
        lacking("node, and NODE_PATH with `npm install @temporalio/worker`")
    return TypeScript.prepared(tmp_path_factory.mktemp("typescript"), modules)
