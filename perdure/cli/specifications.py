"""Checks the OpenAPI documents of tools against the OpenAPI specification itself, where its validator is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..prompty.check.findings import Finding, warning
from ..prompty.places import maps_in

MAX_PROBLEMS = 5


def specification_findings(asset: Mapping[str, Any], folder: Path) -> Iterator[Finding]:
    """A warning for each mistake, for `prompty.check`: a tool often works all the same."""
    from ..tools.openapi.document import SpecificationError
    from ..tools.openapi.local import is_url, mistakes_in_file

    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        path = tool.get("specification")
        if tool.get("kind") != "openapi" or not isinstance(path, str) or not path or is_url(path):
            continue
        where = (*place, "specification")
        try:
            mistakes = mistakes_in_file(path, folder)
        except SpecificationError:
            continue  # Another check says what is wrong with it.
        except ImportError:
            return
        yield from (warning(where, f"{path} is no valid OpenAPI document: {text}") for text in mistakes[:MAX_PROBLEMS])
