"""The tools of the code reader: they look at one source tree, whose root is chosen by the run, not
by the model.
"""

from __future__ import annotations

from typing import Annotated

import source_tree

from perdure.tools import tool

SEARCH_SECONDS = 10
Pattern = Annotated[str, "Which files: a glob such as *.py or docs/*.md"]
MaxResults = Annotated[int, "At most this many lines"]


@tool
def list_files(root: str, pattern: Pattern = "*", max_results: MaxResults = 200) -> str:
    """Lists the files of the source tree with their sizes."""
    return source_tree.list_tree(root, pattern, max_results)


@tool
def search_text(
    root: str,
    query: str,
    is_regex: bool = False,
    pattern: Pattern = "*",
    max_results: MaxResults = 100,
) -> str:
    """Finds the lines that contain a text or match a regular expression. Gives path, line number
    and line.
    """
    if not is_regex:
        return source_tree.search(
            root, query, is_regex=False, pattern=pattern, max_results=max_results
        )
    return source_tree.search_apart(
        root, query, pattern=pattern, max_results=max_results, seconds=SEARCH_SECONDS
    )


@tool
def read_file(
    root: str,
    path: Annotated[str, "Relative to the root, as list_files shows it"],
    first_line: Annotated[int, "1 is the first line"] = 1,
    last_line: Annotated[int | None, "The last line to read; at most 400 lines are given"] = None,
) -> str:
    """Reads lines of a text file, each with its number."""
    return source_tree.read(root, path, first_line, last_line)
