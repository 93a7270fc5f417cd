"""A scripted model behind real HTTP on loopback: in a test, or in place of an agent's own
model.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from pydantic import ValidationError

from ..agents import Agent, Model, with_others
from ..declared_tools import Connection
from ..json_types import JsonObject
from ..providers.registry import PROVIDERS
from ..settings.delegates import with_delegates
from ..text import one_line
from ..tools.files import record_tools
from .http_server import LoopbackServer
from .script import Script, ScriptedReply, ScriptedRequest, ScriptExhausted, choose_reply
from .wires.table import Wire


class ScriptedModel:
    """Plays a script to every client that speaks Chat Completions, Responses or Anthropic Messages.

    The reply depends on the request alone: its step is the number of assistant turns in its
    conversation. So a repeated call, after a failure or on another
    worker after a crash, gets the same reply. Only a sequence in place of a reply depends on the
    number of requests for its step, by all clients together. If context trimming drops assistant
    turns, use a function as the script.

    A conversation that the real API would refuse (an unanswered tool call, a result without its
    call) gets its 400. So does a request without a reply in the script.

    Use it as a context manager, or call `start` and `close`. `port` 0 takes any free one.
    """

    def __init__(self, script: Script, *, port: int = 0) -> None:
        self.requests: list[ScriptedRequest] = []
        """Every model call received, in order of arrival."""
        self._script = script
        self._attempts: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._port = port
        self._server: LoopbackServer | None = None

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`. Raises RuntimeError while the server is not running."""
        if self._server is None:
            raise RuntimeError(
                "the scripted model is not running: use it as a context manager, or call start()"
            )
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def openai_endpoint(self) -> str:
        """Base URL for the OpenAI SDK. Raises RuntimeError while the server is not running."""
        return f"{self.url}/v1"

    @property
    def anthropic_endpoint(self) -> str:
        """Base URL for the Anthropic SDK. Raises RuntimeError while the server is not running."""
        return self.url

    def start(self) -> Self:
        """Serve, in threads of this process. Raises OSError if the port is taken."""
        self._server = LoopbackServer(self, self._port)
        return self

    def close(self) -> None:
        """Stop at once: abandon unfinished responses and close the connections. The requests stay
        readable.
        """
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_until(self, condition: Callable[[], bool], timeout: float = 10.0) -> None:
        """Block until `condition` holds; it is evaluated when a request arrives or ends.

        Raises TimeoutError after `timeout` seconds.

        From a coroutine: `await asyncio.to_thread(model.wait_until, lambda: len(model.requests) ==
        2)`.
        """
        with self._changed:
            if not self._changed.wait_for(condition, timeout):
                raise TimeoutError(
                    f"not seen within {timeout} seconds; requests so far: {self.requests!r}"
                )

    def receive(
        self, wire: Wire, path: str, headers: dict[str, str], body: JsonObject
    ) -> ScriptedRequest:
        """Record a request; the server calls this."""
        step = wire.count_turns(body)
        with self._changed:
            self._attempts[step] += 1
            request = ScriptedRequest(
                path=path,
                api=wire.API,
                body=body,
                step=step,
                attempt=self._attempts[step],
                received_at=time.monotonic(),
                headers=headers,
                read_messages=wire.read_messages,
            )
            self.requests.append(request)
            self._changed.notify_all()
        return request

    def reply_to(self, wire: Wire, request: ScriptedRequest) -> ScriptedReply:
        """Return the script's reply, or a 400 that explains its absence; the server calls this."""
        if fault := wire.find_fault(request.body):
            return ScriptedReply(status=400, error=wire.error(400, fault))
        try:
            return choose_reply(self._script, request)
        except ScriptExhausted as exhausted:
            return ScriptedReply(status=400, error=wire.error(400, str(exhausted)))
        except Exception as error:
            text = (
                f"scripted model: the script failed at step {request.step}: "
                f"{type(error).__name__}: {error}"
            )
            return ScriptedReply(status=400, error=wire.error(400, text))

    def finish(self, request: ScriptedRequest, *, aborted: bool) -> None:
        """Record how a request ended; the server calls this."""
        with self._changed:
            request.aborted = aborted
            request.finished_at = time.monotonic()
            self._changed.notify_all()


def read_script(text: str) -> Script:
    """Return the script in JSON text: a list of replies, with a list of replies where attempts
    differ.

    Raises ValueError if the text is not such a list.
    """
    steps = json.loads(text)
    if not isinstance(steps, list):
        raise ValueError(f"a script is a list of replies, not {type(steps).__name__}")
    return [
        [_reply(each, f"reply {number}, attempt {attempt}") for attempt, each in enumerate(step, 1)]
        if isinstance(step, list)
        else _reply(step, f"reply {number}")
        for number, step in enumerate(steps, 1)
    ]


def _reply(given: Any, where: str) -> ScriptedReply:
    if not isinstance(given, dict):
        raise ValueError(
            f"{where}: expected an object with fields of ScriptedReply, got {one_line(repr(given))}"
        )
    try:
        return ScriptedReply.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        got = "" if first["type"] == "missing" else f", got {one_line(repr(first['input']))}"
        raise ValueError(f"{where}: {place}: {first['msg']}{got}") from None


def with_script(agent: Agent, model: ScriptedModel) -> Agent:
    """Return the agent with the script as its model; the same for the agents that it calls.

    Raises RuntimeError before the scripted model is started, and as `record_tools` does.
    """
    _, others = record_tools(with_delegates(agent))
    scripted = {path: _with_endpoint(other, model) for path, other in others.items()}
    return with_others(_with_endpoint(agent, model), scripted)


def _with_endpoint(agent: Agent, model: ScriptedModel) -> Agent:
    declared = agent.model or Model(id="scripted")
    provider = "anthropic" if declared.provider == "anthropic" else "openai"
    endpoint = model.anthropic_endpoint if provider == "anthropic" else model.openai_endpoint
    change = {"provider": provider, "connection": Connection(kind="anonymous", endpoint=endpoint)}
    if declared.provider_key not in PROVIDERS:
        change["api_type"] = "chat"  # The script does not know the API names of other packages.
    return agent.model_copy(update={"model": declared.model_copy(update=change)})
