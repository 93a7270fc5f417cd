"""A reader of one page: carries its blocks out in order, in one folder, one shell and one Python.

A `python NAME` or `yaml NAME` is a file that is saved; Python is executed, with the names of the
page's blocks before it. A file of an agent is checked; a part of one is checked in a small agent.
A service stays until `stop`. Of a command's output, words count: `…` and words with a
digit stand for anything.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import socket
import sys
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml
from temporalio.client import Client

from perdure.client import RunHandle, RunOptions, start_run
from perdure.json_types import JsonObject
from perdure.prompty.check.check import check
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says
from perdure.worker import create_worker

from ..support.command_line import clean_environment
from ..support.commands import ForkedProcess, forker
from ..support.needs import program
from ..support.waiting import wait_for
from .first_hour import Terminal
from .manual import ROOT, Block, blocks

SERVICE = re.compile(r"perdure (worker|dev|serve|codec-server)\b")
BLOCKING = re.compile(r"asyncio\.run\(|invoke_agent\(|run_in_process\(")
"""Code that waits for a loop of its own."""
CALLED = re.compile(r"main$|test_")
SECONDS = 200
"""For one block."""
WILD = re.compile(r"\S*(?:\d|…)\S*")
SHIM = """#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
task = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
content = json.dumps(task).encode()
socket.send_fds(server, [b"%8d" % len(content)], [0, 1, 2])
server.sendall(content)
answers = server.makefile()
pid = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
sys.exit(int(answers.readline()) % 256)
"""
"""`perdure` of the reader's shell: a process that has imported everything forks the command."""
PROGRAMS = {"curl", "jq", "openssl", "sqlite3"}
"""Those of the machine; without one of them the rest of the page is skipped."""
AGENT: JsonObject = {"name": "part", "model": {"id": "gpt-5", "provider": "openai"}}
AGENT_KEYS = {"name", "model", "tools", "metadata", "inputs", "outputs", "description"}

Reply = Callable[[ScriptedRequest], ScriptedReply]


class Programs:
    """The folder of `perdure` for a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listener = socket.socket(socket.AF_UNIX)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Programs:
        self.folder.mkdir()
        address = str(self.folder / "socket")
        self._listener.bind(address)
        self._listener.listen()
        self._listener.setblocking(False)
        shim = self.folder / "perdure"
        shim.write_text(SHIM.format(python=sys.executable, address=address))
        shim.chmod(0o755)
        self._add(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener.close()

    def _add(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            self._add(self._fork(connection))

    async def _fork(self, connection: socket.socket) -> None:
        """Start the command; it ends with the shell's process, and the other way round."""
        loop = asyncio.get_running_loop()
        with connection:
            connection.setblocking(True)
            task, (stdin, stdout, stderr) = await asyncio.to_thread(_received, connection)
            connection.setblocking(False)
            process: ForkedProcess = await forker.process(task, (stdin, stdout, stderr))
            gone = asyncio.ensure_future(loop.sock_recv(connection, 1))
            try:
                await loop.sock_sendall(connection, f"{process.pid}\n".encode())
                await asyncio.wait([process.ended, gone], return_when=asyncio.FIRST_COMPLETED)
                if process.returncode is not None:
                    code = process.returncode
                    await loop.sock_sendall(connection, f"{abs(code)}\n".encode())
            finally:
                process.kill()
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)


def _received(connection: socket.socket) -> tuple[Any, list[int]]:
    length, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    content = bytearray()
    while len(content) < int(length):
        content += connection.recv(int(length) - len(content))
    return json.loads(content), descriptors


class Shell(Terminal):
    """A terminal in which services go to the background, and stay there until `stop`."""

    def run(self, command: str, expected: list[str]) -> None:
        """Raises AssertionError when it fails, or when a line of its output is not there."""
        command = self._own_ports(command)
        bare = re.sub(r"\s#\s.*", "", command).strip()
        if re.match(r"perdure (delete|sweep|cancel) ?(?!.*--(yes|dry-run))", bare):
            command = bare = f"{bare} --yes"
        expected = [self._own_ports(line) for line in expected]
        if SERVICE.match(bare):
            output = self._serve(re.sub(r"(perdure serve)\b", r"\1 --port 8400", bare), expected)
        else:
            stdin = "" if re.search(r"^cat |\|", bare) else "</dev/null"
            output, code = self._type(f"{{ {command}\n}} {stdin}")
            allowed = (0, 1) if re.match("perdure (doctor|check)", bare) else (0,)
            assert code in allowed, f"$ {command}\nended with {code}:\n{output}{self._logs()}"
        if missing := unlike(expected, output):
            raise AssertionError(f"$ {command}\nhas no line {missing!r} in its place:\n{output}")

    def stop(self) -> None:
        self._type(f"{END}; wait")

    def end(self) -> None:
        """End the shell; what it has started is ended."""
        self._shell.kill()
        self._shell.wait()
        for pipe in (self._shell.stdin, self._shell.stdout):
            if pipe:
                pipe.close()

    def _serve(self, command: str, expected: list[str]) -> str:
        log = self._folder / f"service-{len([*self._folder.glob('service-*')])}.log"
        self._type(f"{command} > {log.name} 2>&1 < /dev/null &")
        self._await_ready(log)
        return log.read_text()


END = 'for job in $(jobs -p); do kill -TERM -- "-$job"; done 2>/dev/null'


def unlike(expected: list[str], output: str) -> str:
    """The first expected line that is not in the output, in order."""
    rest = iter(output.splitlines())
    for line in expected:
        words = [r"\S.*" if WILD.fullmatch(word) else re.escape(word) for word in line.split()]
        pattern = re.compile(r"\s*" + r"\s+".join(words).replace(r"\S.*\s+\S.*", r"\S.*") + r"\s*")
        if line.strip() != "…" and not any(pattern.fullmatch(each) for each in rest):
            return line
    return ""


class Reader:
    """Reads one page. `names` are those of its Python; `instead` are words of its commands that
    stand for another one here, such as a run's id.
    """

    def __init__(self, page: Path, folder: Path, client: Client) -> None:
        self.page, self.client, self.folder = page, client, folder
        self.reply: Reply = talk
        """The model's."""
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}
        """What happens before a command that contains the text."""
        self.names: JsonObject = {"__name__": "shown", "client": client}
        self.instead: dict[str, str] = {}
        self.reads: Callable[[Block], object] | None = None
        """For the next YAML or JSON that is not an agent's."""
        self.stack = AsyncExitStack()
        self._blocks = [each for each in blocks(page) if each.treatment == "executed"]
        self.shell: Shell
        self.model: ScriptedModel
        self.set_variable: Callable[[str, str], None]

    async def open(self, environment: dict[str, str]) -> None:
        for block in reversed([each for each in self._blocks if each.info]):
            self._save(block)
        programs = await self.stack.enter_async_context(Programs(self.folder.parent / "bin"))
        path = f"{programs.folder}{os.pathsep}{environment['PATH']}"
        self.shell = Shell(self.folder, {**environment, "PATH": path, "PIP_NO_INDEX": "1"})

    async def close(self) -> None:
        """End the page's worker, the commands, then the shell."""
        if "worker" in self.names:  # a worker that was never run keeps the queue for itself
            await self.run_worker()
        await self.stack.aclose()
        await asyncio.to_thread(self.shell.end)

    async def worker(self, tools: Any = (), **more: Any) -> None:
        """A worker until the end of the page."""
        await self.stack.enter_async_context(create_worker(self.client, tools=tools, **more))

    async def run_worker(self) -> None:
        """Start and stop the `worker` that the page has made."""
        async with self.names.pop("worker"):
            pass

    def save(self, name: str, text: str) -> None:
        target = self.folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def save_agent(self, name: str, **properties: Any) -> None:
        """A file `NAME.prompty` that asks the model the input `question`."""
        question = {"name": "question", "kind": "string"}
        head = {**AGENT, "name": Path(name).stem, "inputs": [question], **properties}
        text = yaml.safe_dump(head, sort_keys=False)
        self.save(f"{name}.prompty", f"---\n{text}---\nuser:\n{{{{question}}}}\n")

    def elsewhere(self, test: str, *texts: str) -> None:
        """Leave out the blocks with these texts: that test executes them."""
        assert [*ROOT.glob(f"tests/**/{test}.py")], test
        for text in texts:
            found = [each for each in self._blocks if text in each.text]
            assert found, f"no block has {text!r}"
            self._blocks = [each for each in self._blocks if each not in found]

    async def start(self, agent: str = "agent.prompty", **more: Any) -> RunHandle[Any]:
        return await start_run(self.client, agent, {"question": "Where is order 7?"}, **more)

    async def held(self, word: str = "", **more: Any) -> RunHandle[Any]:
        """A run whose model has refused its key, and answers from now on; `word` stands for it."""
        self.reply = lambda request: ScriptedReply(status=401)
        run = await self.start(options=RunOptions(on_failure="hold"), **more)
        await wait_for(lambda: _is(run, "held"))
        self.reply = talk
        self.instead[word] = run.id
        return run

    async def until(self, text: str) -> None:
        """Carry out the blocks before the one that contains the text."""
        while self._blocks and text not in self._blocks[0].text:
            await self.next()
        assert self._blocks, f"no block is left with {text!r}"

    async def through(self, text: str) -> None:
        """Carry out the blocks, the first one that contains the text included."""
        await self.until(text)
        await self.next()

    async def stop(self) -> None:
        """End the services."""
        await asyncio.to_thread(self.shell.stop)

    async def type(self, command: str) -> None:
        await asyncio.to_thread(self.shell.run, command, [])

    def take(self) -> Block:
        """The next block, which the caller executes."""
        return self._blocks.pop(0)

    async def rest(self) -> None:
        while self._blocks:
            await self.next()

    async def next(self) -> None:
        block = self._blocks.pop(0)
        try:
            async with asyncio.timeout(SECONDS):
                await self._carry_out(block)
        except BaseException as error:
            error.add_note(f"in {block}")
            raise

    async def _carry_out(self, block: Block) -> None:
        if block.info:
            self._save(block)
        if block.language == "console":
            for name in PROGRAMS & set(re.findall(r"\w+", block.text)):
                program(name, package=name)
            for command, expected in commands(block.text):
                for text, prepare in self.before.items():
                    if text in command:
                        await prepare()
                lines = [self.replaced(line) for line in expected]
                await asyncio.to_thread(self.shell.run, self.replaced(command), lines)
        elif block.language == "python":
            await self._python(block)
        elif block.language == "toml":
            self._entry_points(block)
        elif self.reads:
            reads, self.reads = self.reads, None
            read = reads(block)
            if inspect.isawaitable(read):
                await read
        elif block.language == "yaml":
            self._agent(block)
        else:
            raise AssertionError(f"nothing reads {block.language}")

    def replaced(self, text: str) -> str:
        for word, value in sorted(self.instead.items(), reverse=True):
            text = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", lambda _, it=value: it, text)
        return text

    async def _python(self, block: Block) -> None:
        text, before = self.replaced(block.text), {**self.names}
        self.names["__file__"] = str(self.folder / (block.info or "shown.py"))
        code = compile(text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, self.names)
        elif BLOCKING.search(text):
            await asyncio.to_thread(exec, code, self.names)
        else:
            exec(code, self.names)
        for name, value in {**self.names}.items():
            if CALLED.match(name) and value is not before.get(name) and f"{name}())" not in text:
                await self.call(value)

    @staticmethod
    async def call(function: Any, *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        return await asyncio.to_thread(function, *arguments)

    def _save(self, block: Block) -> None:
        is_part = block.info.endswith(".prompty") and not block.text.startswith("---\n")
        self.save(block.info, _whole(block.text) if is_part else block.text)

    def _agent(self, block: Block) -> None:
        name = block.info or "part.prompty"
        if not name.endswith(".prompty"):
            yaml.safe_load(block.text)  # a file that an agent names, which reads it
            return
        if not block.info:
            whole = block.text.startswith("---\n")
            self.save(name, block.text if whole else _whole(block.text))
        found = [str(each) for each in check(self.folder / name) if each.severity == "error"]
        assert not found, "\n".join(found)

    def _entry_points(self, block: Block) -> None:
        """Install what the block declares, from the files of the folder, and load it."""
        [(group, entries)] = tomllib.loads(block.text)["project"]["entry-points"].items()
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        about = self.folder / f"reader_{group.replace('.', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: reader\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("\n".join(lines))
        from importlib.metadata import entry_points

        for each in entry_points(group=group):
            if each.name in entries:
                each.load()


def _whole(text: str) -> str:
    """A file of a small agent with these properties."""
    part = yaml.safe_load(text)
    if part.keys() == {"connection"}:
        part = {"tools": [{"name": "part", "kind": "mcp", **part}]}
    assert part.keys() <= AGENT_KEYS, f"nothing reads the keys {part.keys() - AGENT_KEYS}"
    return f"---\n{yaml.safe_dump({**AGENT, **part}, sort_keys=False)}---\nuser:\nHello\n"


async def _is(run: RunHandle[Any], status: str) -> bool:
    return (await run.status()).status == status


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines of its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.rstrip("\n").split("\n")
        count = next(n for n, line in enumerate(lines, 1) if not line.endswith("\\"))
        yield "\n".join(lines[:count]), [line for line in lines[count:] if line.strip()]


def environment(home: Path, address: str, model: ScriptedModel) -> dict[str, str]:
    """Names the server and, for each provider, the model."""
    return {
        **clean_environment(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TEMPORAL_ADDRESS": address,
        "OPENAI_BASE_URL": model.openai_endpoint,
        "OPENAI_API_KEY": "any",
        "ANTHROPIC_BASE_URL": model.anthropic_endpoint,
        "ANTHROPIC_API_KEY": "any",
    }


def talk(request: ScriptedRequest) -> ScriptedReply:
    """The model's reply where a page needs none of its own."""
    return says("Fine.")
