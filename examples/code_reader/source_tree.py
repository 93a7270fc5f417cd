"""Reads a source tree, and nothing outside it.

Run as a program, it reads the arguments of `search` as JSON from stdin. Matching a regular
expression can take for ever and holds up every thread, so it takes place in a process of its own,
which can be stopped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "build", "dist"})
"""Besides every folder whose name starts with a dot."""
MAX_FILES = 20_000
MAX_SEARCHED_BYTES = 2 * 1024 * 1024
"""Larger files are not searched."""
MAX_LINES_READ = 400
MAX_LINE_LENGTH = 300
"""Characters of a line that are shown and searched."""


def inside(root: str, path: str) -> Path:
    """The real path of `path`, which is relative to `root`.

    Raises PermissionError when it leads out of `root`, and NotADirectoryError when `root` is not a
    folder.
    """
    base = _folder(root)
    target = (base / path).resolve()
    if not target.is_relative_to(base):
        raise PermissionError(
            f"{path!r} is outside the source tree: give a path relative to its root"
        )
    return target


def list_tree(root: str, pattern: str, max_results: int) -> str:
    """One line for each file, with its size in bytes, and how many more there are.

    Raises NotADirectoryError when `root` is not a folder.
    """
    base = _folder(root)
    paths = sorted(find(base, pattern))
    shown = [f"{path} ({(base / path).stat().st_size} bytes)" for path in paths[:max_results]]
    if not shown:
        return f"No file matches {pattern!r}."
    return "\n".join([f"{len(paths)} files", *shown, *_more(len(paths) - len(shown), "files")])


def find(base: Path, pattern: str) -> Iterator[str]:
    """The matching files of the tree, relative to `base`, with slashes; without symbolic links that
    lead out of it.
    """
    matching = (path for path in _walk(base) if _matches(path, pattern))
    return islice(matching, MAX_FILES)


def search(root: str, query: str, *, is_regex: bool, pattern: str, max_results: int) -> str:
    """`path:line: text` for each line with a match, and how many more there are.

    Raises NotADirectoryError when `root` is not a folder, and `re.error` when `query` is not a
    regular expression.
    """
    base = _folder(root)
    expression = re.compile(query if is_regex else re.escape(query))
    matches = [
        match
        for path in sorted(find(base, pattern))
        for match in _matches_in(base, path, expression)
    ]
    if not matches:
        return f"No line matches {query!r}."
    return "\n".join([*matches[:max_results], *_more(len(matches) - max_results, "lines match")])


def search_apart(root: str, query: str, *, pattern: str, max_results: int, seconds: float) -> str:
    """`search` for a regular expression, in a process of its own.

    Raises TimeoutError after so many seconds, and ValueError when `query` is not a regular
    expression or the search fails.
    """
    try:
        re.compile(query)
    except re.error as error:
        raise ValueError(f"{query!r} is not a regular expression: {error}") from error
    arguments = {
        "root": root,
        "query": query,
        "is_regex": True,
        "pattern": pattern,
        "max_results": max_results,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-I", __file__],
            input=json.dumps(arguments).encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{query!r} took over {seconds} seconds: use a simpler one") from None
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return done.stdout.decode("utf-8")


def read(root: str, path: str, first_line: int, last_line: int | None) -> str:
    """The lines from `first_line` (1 is the first) to `last_line`, each with its number; at most
    400.

    Raises PermissionError for a path that leads out of `root`, FileNotFoundError, and ValueError
    for a binary file or lines in the wrong order.
    """
    target = inside(root, path)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {path!r} in the source tree: see list_files")
    if _is_binary(target):
        raise ValueError(f"{path!r} is a binary file of {target.stat().st_size} bytes")
    start = max(1, first_line)
    count = MAX_LINES_READ if last_line is None else min(MAX_LINES_READ, last_line - start + 1)
    if count < 1:
        raise ValueError(f"last_line ({last_line}) is before first_line ({start})")
    with target.open(encoding="utf-8", errors="replace") as lines:
        wanted = list(islice(lines, start - 1, start - 1 + count))
        left = sum(1 for _ in lines)
    if not wanted:
        return f"{path} has fewer than {start} lines."
    numbered = [f"{number:5}  {_shown(line)}" for number, line in enumerate(wanted, start)]
    return "\n".join(
        [f"{path}, lines {start} to {start + len(wanted) - 1}", *numbered, *_more(left, "lines")]
    )


def _folder(root: str) -> Path:
    base = Path(root).resolve()
    if not base.is_dir():
        raise NotADirectoryError(
            f"there is no folder {str(base)!r} to read from: set the input `root`"
        )
    return base


def _walk(base: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(base):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS
        )
        for name in names:
            path = Path(folder, name)
            if path.is_file() and path.resolve().is_relative_to(base):
                yield path.relative_to(base).as_posix()


def _matches(path: str, pattern: str) -> bool:
    candidates = (path, path.rpartition("/")[2])
    return any(fnmatch(candidate, pattern.removeprefix("**/")) for candidate in candidates)


def _matches_in(base: Path, path: str, expression: re.Pattern[str]) -> Iterator[str]:
    target = base / path
    if target.stat().st_size > MAX_SEARCHED_BYTES or _is_binary(target):
        return
    with target.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if expression.search(line[:MAX_LINE_LENGTH].rstrip("\n")):
                yield f"{path}:{number}: {_shown(line.strip())}"


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" in file.read(8192)


def _shown(line: str) -> str:
    line = line.rstrip("\r\n")
    return (
        line
        if len(line) <= MAX_LINE_LENGTH
        else f"{line[:MAX_LINE_LENGTH]}… ({len(line)} characters)"
    )


def _more(count: int, what: str) -> list[str]:
    return [f"… {count} more {what}"] if count > 0 else []


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    print(search(**json.load(sys.stdin)), end="")
