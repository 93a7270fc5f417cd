"""Tells on a queue of the worker's own what it has: doctors of a system ask each worker there."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from .._version import __version__
from ..payloads.converter import perdure_data_converter
from ..payloads.encryption.codec import EncryptingCodec
from ..payloads.storage import VARIABLE
from ..protocol.inventory import WorkerAccount
from ..protocol.names import WORKER_ACCOUNT, own_queue
from ..vouching import vouch_keys
from .ending import bound_end


@asynccontextmanager
async def telling(worker: Worker, settings: Mapping[str, Any], tools: Sequence[str]) -> AsyncIterator[None]:
    """While the block runs, answer on the worker's own queue, which has no version; `settings` are the plugin's."""
    client = worker.client
    queue = own_queue(worker.task_queue, worker.config().get("identity") or client.identity)
    account = _account(settings, tools, client)
    answering = Worker(
        plain_client(client),
        task_queue=queue,
        activities=[_answer(account)],
        max_concurrent_activity_task_polls=1,
        max_concurrent_activities=2,
    )
    async with bound_end(answering):
        yield


def plain_client(client: Client) -> Client:
    """Return the same connection without plugins, with a converter that does not encrypt: an account has no secrets."""
    config = client.config()
    config["plugins"] = []
    config["data_converter"] = perdure_data_converter
    return Client(**config)


def _answer(account: WorkerAccount) -> Callable[..., Any]:
    @activity.defn(name=WORKER_ACCOUNT)
    async def answer() -> WorkerAccount:
        return account.model_copy(update={"time": time.time()})

    return answer


def _account(settings: Mapping[str, Any], tools: Sequence[str], client: Client) -> WorkerAccount:
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
