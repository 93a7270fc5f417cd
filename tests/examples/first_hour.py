"""The pages of the first hour, carried out as a reader does: files are saved, commands are typed.

A block's first line tells what it is: `python NAME` is a file, `python NAME more` is added to the end
of one, `yaml NAME after TEXT` comes below the line that contains the text. `console` has commands in
one terminal, each followed by lines of its output, where `…` stands for anything. Commands of another
kind of console are not typed. `python first_hour.py FOLDER N` carries out the first N pages.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs" / "first-hour" / f"{name}.md"
    for name in (
        *("install", "first-agent", "watch-it", "kill-it", "ask-a-person"),
        *("web-session", "steer-fork-rerun", "test-it", "two-workers", "deploy-it"),
    )
]
PORTS = ("8400", "8500", "8600", "8700", "9464", "9465")
READY = re.compile(r"answers at|begins|Page: |Temporal server:|Uvicorn running|Codec server:")
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LAGS = ("perdure ls", "perdure status")
"""A reader types these again while a list is a second behind."""
KILLED = re.compile(r"bash: line \d+: +\d+ (?:Killed|Terminated|Exit).*\n")
END = "the end of this command:"
SECONDS = 90
END_JOBS = 'for job in $(jobs -p); do kill -KILL -- "-$job"; done'


@dataclass
class Step:
    """A file, with all of its text until here, or a command with the lines that it writes."""

    name: str
    text: str = ""
    expected: tuple[str, ...] = ()


def steps(page: Path, files: dict[str, str]) -> Iterator[Step]:
    """The page's steps; `files` are those of the pages before, and gets those of this one."""
    for language, info, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        name, _, where = info.strip().partition(" ")
        if language == "console" and not name:
            yield from _commands(text)
        elif language in ("python", "yaml") and name:
            files[name] = _changed(files.get(name, ""), where, text)
            yield Step(name, files[name])


def _changed(before: str, where: str, text: str) -> str:
    if not where:
        return text
    if where == "more":
        return f"{before}\n\n{text}"
    lines = before.splitlines(keepends=True)
    [at] = [n for n, line in enumerate(lines) if where.removeprefix("after ") in line]
    return "".join([*lines[: at + 1], text, *lines[at + 1 :]])


def _commands(text: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield Step(command, expected=tuple(line for line in lines if line.strip()))


class Terminal:
    """A shell with jobs, in a folder. Raises AssertionError where a command fails."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._ports = {each: str(_free_port()) for each in PORTS}
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._type(f"set -m; trap '{END_JOBS}' EXIT")  # also if this process is killed

    def follow(self, step: Step) -> None:
        """Save the file, or type the command and compare its output."""
        if step.text:
            (self._folder / step.name).write_text(self._own_ports(step.text), encoding="utf-8")
            return
        command = self._own_ports(re.sub(r"perdure serve\b", r"\g<0> --port 8400", step.name))
        if log := re.search(r"> (\S+\.log) 2>&1 &$", command):
            (self._folder / log[1]).unlink(missing_ok=True)
        missing, end = "", time.monotonic() + SECONDS
        while True:
            output, code = self._type(command)
            assert code == 0, f"$ {command}\nended with {code}:\n{output}{self._logs()}"
            missing = _missing([self._own_ports(line) for line in step.expected], output)
            if not (missing and command.startswith(LAGS) and time.monotonic() < end):
                break
        assert not missing, f"$ {command}\nhas no line {missing!r} in its place:\n{output}"
        if log:
            self._await_ready(self._folder / log[1])
        if ending := re.fullmatch(r"kill '(%\S+)'", command):  # a reader sees the job end
            self._type(f"wait '{ending[1]}'")

    def close(self) -> None:
        """End the jobs, in order, then the shell."""
        self._type(f"{END_JOBS.replace('KILL', 'TERM')}; wait")
        self._shell.communicate("exit\n", timeout=SECONDS)

    def _type(self, command: str) -> tuple[str, int]:
        assert self._shell.stdin
        assert self._shell.stdout
        self._shell.stdin.write(f"{command}\necho; echo {shlex.quote(END)} $?\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        while line := self._shell.stdout.readline():
            if line.startswith(END):
                return KILLED.sub("", "".join(lines)), int(line.removeprefix(END))
            lines.append(line)
        raise AssertionError(f"the shell has ended in: {command}\n{''.join(lines)}")

    def _own_ports(self, text: str) -> str:
        for port, own in self._ports.items():
            text = re.sub(rf"(?<!\d){port}(?!\d)", own, text)
        return text

    def _await_ready(self, log: Path) -> None:
        end = time.monotonic() + SECONDS
        while not (log.exists() and READY.search(log.read_text())):
            assert time.monotonic() < end, f"{log.name} shows no start: {self._logs()}"
            time.sleep(0.05)

    def _logs(self) -> str:
        return "".join(f"\n-- {log.name}\n{log.read_text()}" for log in self._folder.glob("*.log"))


def _missing(expected: list[str], output: str) -> str:
    """The first expected line that is not there, in order; others may be between them."""
    rest = iter(output.splitlines())
    for line in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split("…")))
        if not any(pattern.fullmatch(found.rstrip()) for found in rest):
            return line
    return ""


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def environment(home: Path, programs: Path) -> dict[str, str]:
    """That of a reader whose virtual environment is `programs`, without any settings."""
    dropped = ("TEMPORAL_", "PERDURE_", "OPENAI_", "ANTHROPIC_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    return {**kept, "PERDURE_HOME": str(home), "PATH": path, "PYTHONUNBUFFERED": "1"}


def main(folder: Path, count: int) -> None:
    """Carry out pages with the programs beside this Python."""
    terminal = Terminal(folder, environment(folder / "home", Path(sys.executable).parent))
    files: dict[str, str] = {}
    try:
        for page in PAGES[:count]:
            for step in steps(page, files):
                print(f"{time.monotonic():.1f} {page.stem}: {step.name}", flush=True)
                terminal.follow(step)
    finally:
        terminal.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
