"""Importing has no effect, and brings no more than is needed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .house import ROOT, modules


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        cwd=ROOT,
    )
    return done.stdout


def loaded_after(code: str, *packages: str) -> list[str]:
    """Which of the packages are loaded once `code` has run in a fresh process."""
    lines = run(
        "-c", f"import sys\n{code}\nprint([p for p in {packages!r} if p in sys.modules])"
    ).splitlines()
    return list(eval(lines[-1]))


@pytest.mark.parametrize("how", [[], pytest.param(["--alone"], marks=pytest.mark.trial)])
def test_every_module_can_be_imported_alone_and_does_nothing_else(how: list[str]) -> None:
    effects = json.loads(run("-m", "tests.repository.import_each", *how))
    assert effects.keys() == modules().keys()
    assert {name: found for name, found in effects.items() if found} == {}


WORKFLOWS = """
import importlib, pkgutil, perdure.workflows
for module in pkgutil.walk_packages(perdure.workflows.__path__, 'perdure.workflows.'):
    importlib.import_module(module.name)
"""


def test_workflow_modules_bring_no_provider_no_templates_no_yaml() -> None:
    assert loaded_after(WORKFLOWS, "openai", "anthropic", "yaml", "jinja2", "httpx2") == []


ERRORS = "from perdure import RunError, SessionError, UnknownCallError"


@pytest.mark.parametrize(
    "code", ["import perdure", "import perdure.client", "import perdure.cli", ERRORS]
)
def test_packages_load_lazily(code: str) -> None:
    assert loaded_after(code, "openai", "anthropic", "yaml", "jinja2", "temporalio") == []


def test_help_loads_no_sdk() -> None:
    code = "from perdure.cli.entry import run\nassert run(['--help']) == 0"
    assert (
        loaded_after(
            code,
            "temporalio",
            "openai",
            "anthropic",
            "pydantic",
            "yaml",
            "jinja2",
            "rich",
            "logging",
        )
        == []
    )


def test_a_file_is_checked_without_what_executes_it() -> None:
    file = ROOT / "examples" / "code_reader" / "code_reader.prompty"
    code = f"from perdure.cli.entry import run\nassert run(['validate', {str(file)!r}]) == 0"
    unused = (
        "asyncio",
        "temporalio",
        "openai",
        "anthropic",
        "httpx2",
        "jsonschema",
        "opentelemetry",
        "rich",
    )
    own = (
        "perdure.providers.clients",
        "perdure.tools.inventory",
        "perdure.tools.context",
        "perdure.tool_calls",
    )
    assert loaded_after(code, *unused, *own) == []


def test_runs_are_listed_without_what_executes_them() -> None:
    unused = ("openai", "anthropic", "yaml", "jinja2", "jsonschema", "opentelemetry", "rich")
    own = ("perdure.workflows", "perdure.tools", "perdure.messages", "perdure.options")
    assert loaded_after("import perdure.cli.ls", *unused, *own, "temporalio.worker") == []


def test_a_worker_begins_without_what_few_runs_need() -> None:
    unused = (
        "openai",
        "anthropic",
        "mcp",
        "a2a",
        "openapi_spec_validator",
        "opentelemetry",
        "rich",
        "sqlite3",
    )
    assert loaded_after("import perdure.cli.worker", *unused, "perdure.testing") == []


def test_the_command_line_does_not_need_the_scripted_model() -> None:
    assert loaded_after("import perdure.cli.app", "perdure.testing") == []
