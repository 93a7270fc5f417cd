"""What perdure asks the server for without one of the SDK's own methods."""

from __future__ import annotations

import ast

from .house import listed, modules, trees

SERVICES = ("workflow_service", "operator_service")


def test_each_call_says_whether_it_is_tried_again() -> None:
    """The SDK's methods try again; a bare call is lost where the server closes an old connection
    just then.
    """
    found = [
        (f"{name}:{node.lineno}", {keyword.arg for keyword in node.keywords})
        for name, path in modules().items()
        for node in ast.walk(trees()[path])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr in SERVICES
    ]
    assert len(found) >= 14
    silent = [where for where, named in found if "retry" not in named]
    assert not silent, listed(
        "write retry=True, or retry=False where another call comes soon or is measured", silent
    )
