"""Serves a worker's liveness and readiness over HTTP, for Kubernetes."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from datetime import timedelta

from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, ServiceClient
from temporalio.worker import Worker

from ..activities.pollers import ACTIVITIES, pollers
from ..errors import ConfigurationError
from ..protocol.names import own_queue
from .metrics import bind_address

LIVE, READY = "/health/live", "/health/ready"
FRESH_SECONDS = 1.0
"""Seconds for which an answer of the server stays valid."""
LOOK_SECONDS, POLL_SECONDS = 0.05, 10.0
"""Seconds between two looks at the pollers, and for a poll: servers refuse shorter ones."""
PATIENCE_SECONDS = 2.0
"""Seconds to wait for a client and for the server."""
MAX_REQUEST_BYTES = 8 * 1024


@asynccontextmanager
async def serving_health(
    address: str | None, worker: Worker
) -> AsyncIterator[AbstractContextManager[None]]:
    """Answer `/health/live` and `/health/ready` at `HOST:PORT` while the block runs; do nothing
    without an address.

    The worker is live while the event loop turns. It is ready inside the yielded context manager,
    while the Temporal server answers and accepts polls. Raises `ConfigurationError` if the address
    can't be used.
    """
    health = Health(worker)
    if address is None:
        yield health.working()
        return
    host, _, port = bind_address(address, "health").rpartition(":")
    try:
        server = await asyncio.start_server(
            health.answer, host.strip("[]"), int(port), limit=MAX_REQUEST_BYTES
        )
    except OSError as error:
        raise ConfigurationError(
            f"no health can be served at {address!r}: {error.strerror or error}. Expected an "
            "address of this machine and a port that no other process uses: choose another one"
        ) from error
    try:
        yield health.working()
    finally:
        server.close()


class Health:
    """A worker's answers about its health."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._works = False
        self._answered: tuple[float, str] = (-FRESH_SECONDS, "")
        self._asking = asyncio.Lock()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Mark the worker as working while the block runs."""
        self._works = True
        try:
            yield
        finally:
            self._works = False

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection; never raises."""
        with suppress(
            OSError,
            TimeoutError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            async with asyncio.timeout(2 * PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ", 2)
                status, why = await self._status(path.partition("?")[0])
                body = (
                    b"" if method == "HEAD" else json.dumps({"status": status, "why": why}).encode()
                )
                code = {"ok": "200 OK", "unknown": "404 Not Found"}.get(
                    status, "503 Service Unavailable"
                )
                fields = (
                    f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: "
                    "close"
                )
                writer.write(f"HTTP/1.1 {code}\r\n{fields}\r\n\r\n".encode() + body)
                await writer.drain()
        writer.close()

    async def _status(self, path: str) -> tuple[str, str]:
        if path not in (LIVE, READY):
            return "unknown", f"expected {LIVE} or {READY}"
        why = await self._obstacle() if path == READY else ""
        return ("unready", why) if why else ("ok", "")

    async def _obstacle(self) -> str:
        """Return why the worker gets no work; "" if it does."""
        if not self._works or self._worker.is_shutdown:
            return "the worker starts or ends"
        async with self._asking:
            if time.monotonic() - self._answered[0] > FRESH_SECONDS:
                client, queue = self._worker.client, self._worker.task_queue
                why = await why_unwell(client.service_client) or await why_no_tasks(client, queue)
                self._answered = (time.monotonic(), why)
        return self._answered[1]


async def why_unwell(service: ServiceClient) -> str:
    """Return why the Temporal server does not accept requests now; "" if it does.

    An unanswered request is repeated once: the server closes old connections, and a request just
    then is lost. The SDK's `retry` would ask an unreachable server until the time is over.
    """
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                is_well = await _is_well(service)
            except RPCError:
                is_well = await _is_well(service)
    except TimeoutError:
        return "the Temporal server does not answer"
    except RPCError as error:
        return f"the Temporal server can't be asked: {error.status.name}"
    return "" if is_well else "the Temporal server is not healthy"


async def require_tasks(client: Client, task_queue: str) -> None:
    """Raises `ConfigurationError` if the server refuses tasks to this client's workers.

    The SDK retries for a minute before it reports such a refusal, and seems to work meanwhile.
    """
    if why := await why_no_tasks(client, task_queue):
        raise ConfigurationError(
            f"{why}: a worker needs the right to poll in the namespace {client.namespace!r}. "
            "Expected credentials that have it (TEMPORAL_API_KEY, or the certificate in "
            "TEMPORAL_TLS_CLIENT_CERT_PATH)"
        )


async def why_no_tasks(client: Client, task_queue: str) -> str:
    """Return why the server refuses the polls of this client's workers; "" if it accepts them, or
    does not answer.

    Makes one poll on a queue that never gets tasks: either it is refused at once, or the server
    lists it as a poller.
    """
    queue, identity = own_queue(task_queue, "may-poll"), str(uuid.uuid4())
    request = PollActivityTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue), identity=identity
    )
    limit = timedelta(seconds=POLL_SECONDS)
    polling = asyncio.ensure_future(
        client.workflow_service.poll_activity_task_queue(request, retry=False, timeout=limit)
    )
    listed = asyncio.create_task(_until_listed(client, queue, identity))
    try:
        await asyncio.wait(
            {polling, listed}, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        error = polling.exception() if polling.done() else None
    finally:
        polling.cancel()
        listed.cancel()
    is_refused = isinstance(error, RPCError) and error.status in _REFUSALS
    return f"the Temporal server refuses this worker's polls ({error})" if is_refused else ""


_REFUSALS = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


async def _until_listed(client: Client, queue: str, identity: str) -> None:
    with suppress(RPCError):
        while identity not in {each.identity for each in await pollers(client, queue, ACTIVITIES)}:
            await asyncio.sleep(LOOK_SECONDS)
        return
    await asyncio.sleep(
        PATIENCE_SECONDS
    )  # A client with the right to poll may lack the right to list pollers.


async def _is_well(service: ServiceClient) -> bool:
    return await service.check_health(timeout=timedelta(seconds=PATIENCE_SECONDS))
