"""Push notifications: what an A2A client wants to be told of its task, by the protocol's own
client.
"""

from __future__ import annotations

import pytest
from a2a.types import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import A2AError

from perdure.activities.call_secrets import seal, unseal
from perdure.client import get_run
from perdure.gateway.identity import TokenFile
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.receiver import Receiver, receiving
from ..support.stage import Stage
from ..support.waiting import wait_for
from .conftest import Serve
from .test_a2a_server import client_of, said
from .test_own import PAY, pay


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_CALL_KEY", "a key for tests, of 32 characters")
    monkeypatch.setenv("PERDURE_ALLOW_HOSTS", "*")


async def states(receiver: Receiver, count: int) -> list[str]:
    async def told() -> bool:
        return len(receiver.taken) >= count

    await wait_for(told)
    return [body["statusUpdate"]["status"]["state"] for _, body in receiver.taken]


async def test_a_client_is_told_when_its_task_waits_and_ends(
    scripted: Scripted, serve_agents: Serve, stage: Stage, tokens: TokenFile
) -> None:
    agent = scripted_agent(scripted([asks(call("pay", euros=3)), says("Paid.")]), [PAY])
    async with (
        receiving() as receiver,
        serve_agents(agent, known=[tokens], tools={"pay": pay}) as served,
        client_of(served, "token-of-ann-at-acme") as ann,
        client_of(served, "token-of-bob-at-bolt") as bob,
    ):
        login = AuthenticationInfo(scheme="Bearer", credentials="the-clients-secret")
        config = TaskPushNotificationConfig(
            id="mine", url=f"{receiver.url}/a2a", token="the-clients-token", authentication=login
        )
        request = SendMessageRequest(
            message=said("Pay it."),
            configuration=SendMessageConfiguration(
                return_immediately=True, task_push_notification_config=config
            ),
        )
        task = [each async for each in ann.send_message(request)][0].task
        assert await states(receiver, 1) == ["TASK_STATE_INPUT_REQUIRED"]
        known, body = receiver.taken[0]
        assert known == "the-clients-token Bearer the-clients-secret"
        assert (body["statusUpdate"]["taskId"], body["statusUpdate"]["contextId"]) == (
            task.id,
            task.context_id,
        )
        # One that comes later is told of what waits; it is listed without what is secret, and to
        # nobody else.
        later = TaskPushNotificationConfig(task_id=task.id, id="later", url=f"{receiver.url}/a2a")
        await ann.create_task_push_notification_config(later)
        assert await states(receiver, 2) == ["TASK_STATE_INPUT_REQUIRED"] * 2
        listed = await ann.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        assert [(each.id, each.token) for each in listed.configs] == [("mine", ""), ("later", "")]
        wanted = GetTaskPushNotificationConfigRequest(task_id=task.id, id="mine")
        assert (await ann.get_task_push_notification_config(wanted)).url == f"{receiver.url}/a2a"
        with pytest.raises(A2AError, match="There is no run"):
            await bob.get_task_push_notification_config(wanted)
        with pytest.raises(A2AError, match="There is no run"):
            await bob.create_task_push_notification_config(later)
        await ann.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="later")
        )
        run = get_run(stage.client, task.id)
        await run.approve((await run.status()).pending_approvals[0].call_id)
        await run.result()
        assert (await states(receiver, 3))[2:] == ["TASK_STATE_COMPLETED"]
        with pytest.raises(A2AError, match="has ended"):
            await ann.create_task_push_notification_config(later)
        history = (await stage.client.get_workflow_handle(task.id).fetch_history()).to_json()
    assert "the-clients" not in history


async def test_a_config_that_cannot_be_is_refused(scripted: Scripted, serve_agents: Serve) -> None:
    agent = scripted_agent(scripted([asks(call("pay", euros=3)), says("Paid.")]), [PAY])
    async with (
        serve_agents(agent, tools={"pay": pay}) as served,
        client_of(served, streaming=False) as client,
    ):
        for wrong in ({"url": "ftp://host"}, {"url": "https://a", "token": "a\nb"}):
            config = TaskPushNotificationConfig(**wrong)
            about = SendMessageConfiguration(task_push_notification_config=config)
            with pytest.raises(A2AError):
                async for _ in client.send_message(
                    SendMessageRequest(message=said("Hi"), configuration=about)
                ):
                    pass


def test_what_is_sealed_for_one_address_opens_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = seal("a secret", "https://a.example")
    assert unseal(sealed, "https://a.example") == "a secret"
    with pytest.raises(ValueError, match="another key"):
        unseal(sealed, "https://b.example")
    monkeypatch.setenv("PERDURE_CALL_KEY", "another key, also of 32 characters")
    with pytest.raises(ValueError, match="PERDURE_CALL_KEY"):
        unseal(sealed, "https://a.example")
