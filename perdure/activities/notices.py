"""Sends notices to webhooks, signed as in Standard Webhooks, to addresses that the worker may
call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError
from temporalio import activity
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from .._version import __version__
from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..options import RunOptions
from ..prompty.worker_limits import Origin, WorkerLimits, is_listed, refused_url, server_in
from ..protocol.names import NOTICE_WORKFLOW, NOTIFY, SEND_NOTICE
from ..redaction import get_logger
from ..text import one_line
from ..webhooks import PUSHED, NoticeInput, PushTarget, Webhook, secret_problem
from .call_secrets import unseal
from .heartbeat import heartbeats
from .posting import NotPosted, post, public_address

VARIABLE = "PERDURE_WEBHOOKS"
"""URLs that the worker's owner notifies of each run, separated by commas."""
GATEWAY_VARIABLE = "PERDURE_GATEWAY_URL"
"""The gateway's public address, for links in notices."""
NOT_TAKEN = "NoticeNotTaken"
"""Error type: this attempt failed; the next one may succeed."""
GONE = 410
"""The status with which a receiver declines further notices."""
_log = get_logger("perdure.runs")


def webhooks_of_worker() -> list[Webhook]:
    """Return the webhooks of the worker's owner. Raises `ConfigurationError` for a value that is
    not a URL.
    """
    if not (given := os.environ.get(VARIABLE)):
        return []
    try:
        return RunOptions.model_validate({"webhooks": given}).webhooks
    except ValidationError as error:
        raise ConfigurationError(
            f"{VARIABLE}={given!r:.200}: {error.errors(include_url=False)[0]['msg']}"
        ) from None


@activity.defn(name=NOTIFY)
async def notify(input: NoticeInput) -> None:
    """Start the workflow that sends the notice, once. Raises `RPCError`."""
    try:
        await activity.client().start_workflow(
            NOTICE_WORKFLOW,
            input,
            id=f"perdure-notice-{input.id}",
            task_queue=activity.info().task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            static_summary=one_line(f"{input.type} · {input.data.get('run', '')}", 200),
        )
    except WorkflowAlreadyStartedError:
        activity.logger.debug("the notice %s is already being sent", input.id)


class Notifier:
    """Sends notices within the limits of a worker."""

    def __init__(self, limits: WorkerLimits) -> None:
        """Raises `ConfigurationError` for an invalid webhook of the owner's."""
        webhooks_of_worker()
        self._limits = limits

    @property
    def all(self) -> Sequence[Callable[..., Any]]:
        """Activities to register."""
        return [notify, self.send]

    @activity.defn(name=SEND_NOTICE)
    async def send(self, input: NoticeInput) -> None:
        """Send the notice to its webhook. Raises ApplicationError for a failed attempt."""
        async with heartbeats():
            await self._send(input)

    async def _send(self, input: NoticeInput) -> None:
        receivers: list[Webhook | PushTarget] = [*input.webhooks, *input.push]
        [receiver] = receivers
        server = server_in(receiver.url)
        if server is None:
            raise _not_sent(f"{receiver.url!r} is not a plain URL")
        if isinstance(receiver, PushTarget):
            body, proof = push_body(input), push_headers(receiver)
        else:
            body = notice_body(input)
            proof = signed_headers(input.id, body, receiver.secret)
        headers = {
            "content-type": "application/json",
            "user-agent": f"perdure/{__version__}",
            **proof,
        }
        try:
            address = await self._address(receiver.url, server)
            status = await post(receiver.url, server, body, headers, address)
        except NotPosted as error:
            raise _not_taken(str(error)) from None
        if status == GONE:
            _log.info("webhook %s refuses further notices: %s is not sent again", server, input.id)
        elif not 200 <= status < 300:
            raise _not_taken(f"{server} has answered with the status {status}, expected 2xx")

    async def _address(self, url: str, server: Origin) -> str | None:
        """Return the address to connect to; None for a URL that the owner has named, wherever it
        leads.

        Raises as `send` does, and `NotPosted`, for an address that this worker may not call.
        """
        if url in [each.url for each in webhooks_of_worker()]:
            return None
        if refused := refused_url(self._limits, url, with_secret=False):
            raise _not_taken(str(refused))
        if is_listed(server, self._limits.hosts or ()):
            return None
        return await public_address(
            server,
            f", where webhooks are not sent: start the worker with --allow-hosts {server.address}, "
            f"or name the webhook in {VARIABLE}, if it should be",
        )


def notice_body(input: NoticeInput) -> str:
    """Return the body, the same for each attempt."""
    data = {**input.data, **_links(input.data)}
    return json.dumps(
        {"type": input.type, "timestamp": _timestamp(input), "data": data}, ensure_ascii=False
    )


def push_body(input: NoticeInput) -> str:
    """Return the body for an A2A client: its task's status, as in streams."""
    data = input.data
    status: JsonObject = {"state": PUSHED[input.type], "timestamp": _timestamp(input)}
    task = {"taskId": data["run"], "contextId": data.get("session") or data["run"]}
    if error := data.get("error"):
        text = f"{error['kind']}: {error['message']}"
        status["message"] = {
            "messageId": input.id,
            "role": "ROLE_AGENT",
            "parts": [{"text": text}],
            **task,
        }
    return json.dumps({"statusUpdate": {**task, "status": status}}, ensure_ascii=False)


def push_headers(target: PushTarget) -> dict[str, str]:
    """Return the headers by which an A2A client knows the sender. Raises as `Notifier.send` does
    without the key.
    """
    try:
        known = json.loads(unseal(target.sealed, target.url)) if target.sealed else {}
    except (ValueError, ConfigurationError) as error:
        raise _not_sent(
            f"the token of the push notification config {target.id!r} can't be read: {error}"
        ) from None
    headers = {
        "x-a2a-notification-token": known.get("token"),
        "authorization": known.get("authorization"),
    }
    return {name: value for name, value in headers.items() if value}


def _timestamp(input: NoticeInput) -> str:
    return datetime.fromtimestamp(input.time, UTC).isoformat(timespec="milliseconds")


def _links(data: JsonObject) -> JsonObject:
    base = os.environ.get(GATEWAY_VARIABLE, "").rstrip("/")
    if not base or "run" not in data:
        return {}
    page = f"{base}/#/run/{quote(data['run'], safe='')}"
    if call := data.get("call"):
        page += f"/decide/{quote(call['callId'], safe='')}"
    return {"link": f"{base}/perdure/runs/{data['run']}", "page": page}


def signed_headers(id: str, body: str, variable: str) -> dict[str, str]:
    """Return the headers of Standard Webhooks, signed now. Raises as `Notifier.send` does without a
    secret.

    Several secrets, separated by spaces, sign in parallel, so that each can be replaced on its own.
    """
    try:
        from standardwebhooks import Webhook as Signer
    except ImportError:
        raise _not_sent(
            "webhooks need a package that is not installed: pip install 'perdure[webhooks]'"
        ) from None
    now = datetime.now(UTC)
    if problem := secret_problem(variable, os.environ.get(variable, "")):
        raise _not_sent(f"the worker's {problem}")
    signatures = [Signer(secret).sign(id, now, body) for secret in os.environ[variable].split()]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def _not_taken(text: str) -> ApplicationError:
    return ApplicationError(text, type=NOT_TAKEN)


def _not_sent(text: str) -> ApplicationError:
    """Return the error for a notice that this worker can't make: it would fail again."""
    return ApplicationError(text, type=NOT_TAKEN, non_retryable=True)
