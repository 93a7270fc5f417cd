"""Reports a worker's contents on a queue of its own, where `perdure doctor` asks each worker."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from .._version import __version__
from ..agents import Agent
from ..breakers import breakers
from ..errors import ToolNotRegisteredError
from ..json_types import JsonView
from ..payloads.converter import perdure_data_converter
from ..payloads.encryption.codec import EncryptingCodec
from ..payloads.storage import VARIABLE
from ..prompty.worker_limits import PROVIDER_KEYS
from ..protocol.inventory import RecordedTool, WorkerAccount, WorkerQuestion
from ..protocol.names import WORKER_ACCOUNT, own_queue
from ..protocol.signatures import vouch_keys
from ..tools.dispatch import ToolBox
from .ending import bound_end


@asynccontextmanager
async def tool_heartbeat(
    worker: Worker, settings: JsonView, toolbox: ToolBox
) -> AsyncIterator[None]:
    """While the block runs, answer on the worker's own unversioned queue; `settings` are the
    plugin's.
    """
    client = worker.client
    queue = own_queue(worker.task_queue, worker.config().get("identity") or client.identity)
    account = _account(settings, toolbox.names, client)
    answering = Worker(
        plain_client(client),
        task_queue=queue,
        activities=[_answer(account, toolbox)],
        max_concurrent_activity_task_polls=1,
        max_concurrent_activities=2,
    )
    async with bound_end(answering):
        yield


def plain_client(client: Client) -> Client:
    """Return the same connection without plugins or encryption: an account contains no secrets."""
    config = client.config()
    config["plugins"] = []
    config["data_converter"] = perdure_data_converter
    return Client(**config)


def _answer(account: WorkerAccount, toolbox: ToolBox) -> Callable[..., Any]:
    @activity.defn(name=WORKER_ACCOUNT)
    async def answer(question: WorkerQuestion) -> WorkerAccount:
        allowed = toolbox.allowed
        known = {name for key in PROVIDER_KEYS for name in (key.variable, *key.endpoint_variables)}
        usable = [
            name for name in question.variables if name in known or allowed.allows("env", name)
        ]
        told = {
            "time": time.time(),
            "variables": [name for name in usable if os.environ.get(name)],
            "changes": [_change(toolbox, each) for each in question.calls],
            "open_breakers": {
                each.name: each.last.kind
                for each in breakers
                if each.last and each.state != "closed"
            },
        }
        return account.model_copy(update=told)

    return answer


def _change(toolbox: ToolBox, recorded: RecordedTool) -> str:
    """Return why recorded calls of a tool do not fit this worker's function; "" if they fit, or
    without a function.
    """
    try:
        handler = toolbox.resolve(recorded.tool.name, Agent(tools=[recorded.tool]))
    except ToolNotRegisteredError:
        return ""
    return toolbox.signature_change(handler, recorded.signature) or ""


def _account(settings: JsonView, tools: Sequence[str], client: Client) -> WorkerAccount:
    codec = client.data_converter.payload_codec
    keys = codec.encryption.keys if isinstance(codec, EncryptingCodec) else ()
    url = urlsplit(os.environ.get(VARIABLE, ""))
    return WorkerAccount(
        perdure=__version__,
        tools=sorted(tools),
        guardrails=sorted(settings["guardrails"] or ()),
        compactors=sorted(settings["compactors"] or ()),
        kinds=sorted(settings["tool_kinds"] or ()),
        rates=dict(settings["model_rate"] or {}),
        encryption_keys=[key.id for key in keys],
        vouch_keys=list(vouch_keys().keys),
        storage=url._replace(netloc=url.netloc.rpartition("@")[2], query="").geturl(),
    )
