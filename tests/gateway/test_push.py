"""Web Push: whom a gateway tells of calls that begin to wait, and whom it does not call."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from perdure.errors import ConfigurationError
from perdure.gateway.identity import Identity, TokenFile
from perdure.gateway.own_types import Waiting
from perdure.gateway.problems import HttpProblem
from perdure.gateway.push import MAX_OF_READER, PushSubscription, WebPush, push_from_environment
from perdure.tool_calls import PendingApproval

from ..support.agents import scripted_agent
from ..support.pages import ASKS, PAY, Opened, Scripted, send_refund, start, waits
from ..support.push_service import PushService, push_service, unbased
from ..support.waiting import wait_for
from .conftest import Serve

if TYPE_CHECKING:
    from playwright.async_api import Page

KEY, CONTACT = bytes(range(32)), "mailto:ops@example.com"
ANN, BOB = Identity("ann", "acme"), Identity("bob", "bolt")


def calling(service: PushService, **more: float) -> WebPush:
    """One that may call the service on loopback."""
    return WebPush(KEY, CONTACT, hosts=[service.host], **{"every_seconds": 0.05, **more})


def given(service: PushService, name: str) -> PushSubscription:
    return PushSubscription.model_validate(service.subscription(name))


class Waits:
    """What waits, and how often somebody has looked."""

    def __init__(self) -> None:
        self.calls: list[Waiting] = []
        self.looks = 0

    def begin(self, run: str, since: float | None = None) -> None:
        pending = PendingApproval.model_validate(
            {
                "call_id": "c1",
                "name": "pay",
                "iteration": 1,
                "arguments": {"iban": "DE02"},
                "digest": run,
                "since": time.time() if since is None else since,
            }
        )
        self.calls.append(Waiting(run_id=run, agent=None, call=pending))

    async def look(self, reader: Identity) -> list[Waiting]:
        self.looks += 1
        return self.calls

    async def looked(self, times: int = 3) -> None:
        goal = self.looks + times

        async def probe() -> bool:
            return self.looks >= goal

        await wait_for(probe)


async def test_each_new_call_is_told_once_encrypted_and_signed() -> None:
    waiting = Waits()
    waiting.begin("before", since=1.0)
    async with push_service() as service:
        push = calling(service)
        await push.add(given(service, "phone"), ANN, waiting.look)
        waiting.begin("a/ü")
        await waiting.looked()
        assert service.taken == [("phone", {"run": "a/ü", "call": "c1", "tool": "pay"})]
        [claims], [headers] = service.claims, service.headers
        assert (claims["sub"], claims["key"]) == (CONTACT, push.public_key)
        assert time.time() < claims["exp"] < time.time() + 86400
        assert headers["content-encoding"] == "aes128gcm"
        assert (headers["ttl"], headers["urgency"]) == ("86400", "high")

        await push.add(given(service, "laptop"), ANN, waiting.look)
        await push.add(given(service, "phone"), ANN, waiting.look)  # The same page, loaded again.
        waiting.begin("ü" * 1000)  # The longest id that there is.
        await waiting.looked()
        assert sorted(to for to, _ in service.taken[1:]) == ["laptop", "phone"]
        push.close()


@pytest.mark.parametrize("status", [404, 410])
async def test_a_subscription_that_has_ended_is_forgotten_and_no_redirect_followed(
    status: int,
) -> None:
    waiting = Waits()
    async with push_service() as service:
        service.statuses = {"gone": status, "moved": 302, "busy": 503}
        push = calling(service)
        for name in ("gone", "moved", "busy", "mine", "removed"):
            await push.add(given(service, name), ANN, waiting.look)
        push.remove(f"{service.url}/mine", BOB)
        push.remove(f"{service.url}/removed", ANN)
        for run in ("first", "second"):
            waiting.begin(run)
            await waiting.looked()
        told = {name: service.told(name) for name in ("gone", "moved", "busy", "mine", "removed")}
        both = ["first", "second"]
        assert told == {"gone": ["first"], "moved": both, "busy": both, "mine": both, "removed": []}
        assert not service.told("elsewhere")
        push.close()


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example/a",
        "https://127.0.0.1/a",
        "https://localhost:9/a",
        "https://2130706433/a",
        "https://169.254.169.254/latest",
        "https://10.0.0.1/a",
        "https://[::1]/a",
        "https://[2606:4700::1111]/a",
        "https://user@push.example/a",
        "https://nobody.invalid/a",
        "ftp://push.example/a",
        "",
    ],
)
async def test_only_public_servers_with_tls_are_called(endpoint: str) -> None:
    service, waiting = PushService(), Waits()
    made = given(service, "any")
    made.endpoint = endpoint
    with pytest.raises(HttpProblem, match=r"expected|resolved") as refused:
        await WebPush(KEY, CONTACT).add(made, ANN, waiting.look)
    assert (refused.value.status, refused.value.kind) == (422, "invalid_subscription")


async def test_a_reader_has_so_many_subscriptions() -> None:
    waiting = Waits()
    async with push_service() as service:
        push = calling(service)
        for number in range(MAX_OF_READER):
            await push.add(given(service, f"b{number}"), ANN, waiting.look)
        await push.add(given(service, "b0"), ANN, waiting.look)
        await push.add(given(service, "other"), BOB, waiting.look)
        with pytest.raises(HttpProblem) as refused:
            await push.add(given(service, "more"), ANN, waiting.look)
        assert (refused.value.status, refused.value.kind) == (429, "too_many_subscriptions")
        push.close()


def test_the_key_comes_from_the_environment_and_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert push_from_environment() is None
    secret = "A" * 42 + "E="
    monkeypatch.setenv("PERDURE_PUSH_KEY", f"k1:{secret}")
    for contact in ("", "ops@example.com", "mailto:ops", "http://example.com"):
        monkeypatch.setenv("PERDURE_PUSH_CONTACT", contact)
        with pytest.raises(ConfigurationError, match="PERDURE_PUSH_CONTACT"):
            push_from_environment()
    monkeypatch.setenv("PERDURE_PUSH_CONTACT", "https://example.com")
    push = push_from_environment()
    assert push is not None
    assert len(unbased(push.public_key)) == 65
    for bad in (f"k1:{'A' * 43}=", f"k1:{'_' * 43}=", secret, "k1:AAAA"):
        monkeypatch.setenv("PERDURE_PUSH_KEY", bad)
        with pytest.raises(ConfigurationError, match="PERDURE_PUSH_KEY") as refused:
            push_from_environment()
        assert bad[-20:] not in str(refused.value)


async def test_readers_are_told_of_the_calls_of_their_tenant_alone(
    scripted: Scripted, serve_agents: Serve, tokens: TokenFile
) -> None:
    agent = scripted_agent(scripted(lambda request: ASKS), [PAY], instructions="user:\nHi")
    names = {"ann": "token-of-ann-at-acme", "bob": "token-of-bob-at-bolt", "olga": ""}
    names["olga"] = "token-of-the-operator"
    async with (
        push_service() as service,
        serve_agents(agent, known=[tokens], tools={"send_refund": send_refund}) as served,
    ):
        async with served.asking(names["ann"]) as http:
            asked = (
                ("GET", None),
                ("POST", service.subscription("ann")),
                ("DELETE", {"endpoint": ""}),
            )
            for method, body in asked:
                refused = await http.request(method, "/push", json=body)
                assert (refused.status_code, refused.json()["kind"]) == (404, "no_push")
        served.gateway.push = push = calling(service, every_seconds=0.2)
        for name, token in names.items():
            async with served.asking(token) as http:
                assert (await http.get("/push")).json() == {"publicKey": push.public_key}
                made = service.subscription(name)
                assert (await http.post("/push", json=made)).status_code == 200
                odd = {**made, "keys": {**made["keys"], "p256dh": "B" * 87}}
                for bad in (odd, {**made, "endpoint": f"https://a.example/{'x' * 2000}"}, {}):
                    assert (await http.post("/push", json=bad)).status_code == 422
        runs = {}
        for name in ("ann", "bob"):
            async with served.asking(names[name]) as http:
                runs[name] = (await http.post("/runs", json={"agent": "tested"})).json()["id"]

        async def is_told() -> bool:
            return set(runs.values()) <= set(service.told("olga")) and bool(
                service.told("ann") and service.told("bob")
            )

        await wait_for(is_told)
        assert {name: service.told(name) for name in runs} == {
            name: [run] for name, run in runs.items()
        }
        async with served.asking(names["olga"]) as http:
            gone = await http.request("DELETE", "/push", json={"endpoint": f"{service.url}/olga"})
            assert gone.status_code == 200
            for run in runs.values():
                await http.post(f"/runs/{run}/cancel", json={})
        push.close()


async def test_the_browser_shows_what_is_pushed_and_opens_the_decision(
    opened: Opened, page: Page
) -> None:
    await page.context.grant_permissions(["notifications"])
    async with opened([ASKS], push=WebPush(KEY, CONTACT)) as (_, served):
        await start(served, "pushed")
        await waits(served, "pushed")
        session = await page.context.new_cdp_session(page)
        seen: list[str] = []
        session.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda event: seen.extend(each["registrationId"] for each in event["registrations"]),
        )
        await session.send("ServiceWorker.enable")
        scope = await page.evaluate("navigator.serviceWorker.ready.then((it) => it.scope)")
        assert scope == f"{served.url}/"

        async def is_registered() -> bool:
            return bool(seen)

        await wait_for(is_registered)
        text = '{"run": "pushed", "call": "c1", "tool": "pay\\u202e"}'
        message = {"origin": served.url, "registrationId": seen[0], "data": text}
        shown: list[list[str]] = []

        async def is_shown() -> bool:
            # A message that comes before the worker is ready is lost; a second one replaces the first.
            await session.send("ServiceWorker.deliverPushMessage", message)
            shown[:] = await page.evaluate(
                """async () => {
                    const notifications = await (await navigator.serviceWorker.ready).getNotifications();
                    return notifications.map((each) => [each.title, each.body]);
                }"""
            )
            return bool(shown)

        await wait_for(is_shown)
        assert shown == [["A call waits: pay\ufffd", "pushed"]]
        [worker] = page.context.service_workers
        await worker.evaluate(
            """async () => {
                const [notification] = await registration.getNotifications();
                dispatchEvent(new NotificationEvent("notificationclick", { notification }));
            }"""
        )
        await page.get_by_role("button", name="Approve", exact=True).wait_for()
        assert page.url.endswith("#/run/pushed/decide/c1")
