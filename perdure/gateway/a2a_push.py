"""Push notification configs of A2A clients: the run keeps them, and its workers send the
notifications.
"""

from __future__ import annotations

import json

from a2a.types import ListTaskPushNotificationConfigsResponse, TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from pydantic import ValidationError
from temporalio.service import RPCError, RPCStatusCode

from ..activities.call_secrets import seal
from ..protocol.names import PUSH
from ..webhooks import PushChange, PushTarget
from ..workflows.notices import MAX_PUSH
from .gateway import FoundRun, Gateway
from .problems import faults_in


async def add_config(
    gateway: Gateway, found: FoundRun, config: TaskPushNotificationConfig
) -> TaskPushNotificationConfig:
    """Register the config with the run, and return it as stored.

    Raises `InvalidParamsError` for an invalid config, and `UnsupportedOperationError` for a task
    that has ended.
    """
    target = _target_of(found, config)
    known = [] if found.has_ended else (await found.handle.status()).push
    if len(known) >= MAX_PUSH and target.id not in [each.id for each in known]:
        raise InvalidParamsError(
            f"the task has {MAX_PUSH} push notification configs already: delete one"
        )
    await _send(gateway, found, PushChange(target=target))
    return _public_config(found, target)


async def configs_of(found: FoundRun) -> ListTaskPushNotificationConfigsResponse:
    """Return the configs of a task; a task that has ended has none."""
    targets = [] if found.has_ended else (await found.handle.status()).push
    return ListTaskPushNotificationConfigsResponse(
        configs=[_public_config(found, each) for each in targets]
    )


async def config_of(found: FoundRun, id: str) -> TaskPushNotificationConfig:
    """Return one of a task's configs. Raises `TaskNotFoundError` for an unknown id."""
    for config in (await configs_of(found)).configs:
        if config.id == (id or found.id):
            return config
    raise TaskNotFoundError(f"the task {found.id!r} has no push notification config {id!r}")


async def remove_config(gateway: Gateway, found: FoundRun, id: str) -> None:
    """Remove a config; a missing one is not an error. Raises `UnsupportedOperationError` as
    `add_config` does.
    """
    await _send(gateway, found, PushChange(removed=id or found.id))


def _target_of(found: FoundRun, config: TaskPushNotificationConfig) -> PushTarget:
    login = config.authentication
    authorization = (
        f"{login.scheme} {login.credentials}" if login.scheme and login.credentials else ""
    )
    if any(not text.isprintable() for text in (config.token, authorization)):
        raise InvalidParamsError(
            "token and authentication go into headers: expected text without control characters"
        )
    secrets = {"token": config.token, "authorization": authorization}
    try:
        target = PushTarget(id=config.id or found.id[:200], url=config.url)
    except ValidationError as error:
        raise InvalidParamsError(faults_in(error)) from error
    if any(secrets.values()):
        target.sealed = seal(json.dumps(secrets), target.url)
    return target


def _public_config(found: FoundRun, target: PushTarget) -> TaskPushNotificationConfig:
    """Return a config without its secrets."""
    return TaskPushNotificationConfig(task_id=found.id, id=target.id, url=target.url)


async def _send(gateway: Gateway, found: FoundRun, change: PushChange) -> None:
    try:
        await gateway.client.get_workflow_handle(found.id).signal(PUSH, change)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise UnsupportedOperationError(
            f"the task {found.id!r} has ended: there will be no further notifications"
        ) from error
