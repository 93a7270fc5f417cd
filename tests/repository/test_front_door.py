"""The public names: one list for type checkers, one table at runtime, and both say the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

import perdure
import perdure.client

with workflow.unsafe.imports_passed_through():
    import perdure as passed_through
    from perdure import Usage

PACKAGES = pytest.mark.parametrize(
    "package", [perdure, perdure.client], ids=lambda package: package.__name__
)


def told_to_type_checkers(package: ModuleType) -> dict[str, str]:
    """Name → module, as the package imports them `if TYPE_CHECKING`."""
    assert package.__file__
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.name == alias.asname for node in imports for alias in node.names)
    return {
        alias.name: "." * node.level + (node.module or "")
        for node in imports
        for alias in node.names
    }


@PACKAGES
def test_type_checkers_are_told_what_is_there(package: ModuleType) -> None:
    told = told_to_type_checkers(package)
    assert sorted(package.__all__) == sorted(
        {*told, *({"__version__"} if package is perdure else ())}
    )
    for name, module in told.items():
        assert getattr(package, name) is getattr(import_module(module, package.__name__), name)


def test_what_a_program_needs_has_one_import_path() -> None:
    from perdure import (
        client,
        connect,
        create_worker,
        get_run,
        list_runs,
        session,
        start_run,
        worker,
    )

    assert (connect, get_run, list_runs) == (client.connect, client.get_run, client.list_runs)
    assert (create_worker, session, start_run) == (
        worker.create_worker,
        client.session,
        client.start_run,
    )


def test_the_specification_has_a_name_of_its_own() -> None:
    from perdure import spec

    assert {name: getattr(perdure, name) for name in spec.__all__} == {
        n: getattr(spec, n) for n in spec.__all__
    }
    assert set(spec.__all__) == {name for name in vars(spec) if not name.startswith("_")}


@PACKAGES
def test_dir_shows_all_public_names_before_they_are_used(package: ModuleType) -> None:
    code = (
        f"import {package.__name__} as p; print(set(p.__all__) <= set(dir(p)), '__path__' in "
        "dir(p))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.split() == ["True", "True"]


@PACKAGES
@pytest.mark.parametrize("name", ["__wrapped__", "__file_name__", "nothing"])
def test_an_unknown_name_is_an_attribute_error(package: ModuleType, name: str) -> None:
    with pytest.raises(
        AttributeError, match=f"module '{package.__name__}' has no attribute '{name}'"
    ):
        getattr(package, name)


def test_what_goes_wrong_in_a_module_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"lazy_{uuid4().hex}"
    folder.mkdir()
    (folder / "broken.py").write_text("import no_such_module_anywhere\n")
    (folder / "__init__.py").write_text(
        "from perdure._lazy import lazy_names\n"
        "__getattr__, __dir__, __all__ = lazy_names(__name__, {'.broken': 'first second'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    package = import_module(folder.name)
    for lookup in (lambda: package.first, lambda: hasattr(package, "second")):
        with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
            lookup()


@workflow.defn
class Sandboxed:
    """A user's own workflow, which uses perdure's names inside Temporal's sandbox."""

    @workflow.run
    async def run(self) -> list[str]:
        message = passed_through.Message.user("hello")
        usage = passed_through.Usage(total_tokens=1)
        return [message.text, passed_through.RunError.kind, str(isinstance(usage, Usage))]


async def test_names_work_in_a_sandboxed_workflow(client: Client) -> None:
    task_queue = f"front-door-{uuid4()}"
    async with Worker(client, task_queue=task_queue, workflows=[Sandboxed]):
        result = await client.execute_workflow(Sandboxed.run, id=task_queue, task_queue=task_queue)
    assert result == ["hello", "failed", "True"]
