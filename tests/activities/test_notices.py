"""Where a notice is sent, and where it is not: by addresses of any form, over redirects, by names
that move.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_address, ip_network

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activities.notices import Notifier
from perdure.activities.posting import NotPosted, post
from perdure.prompty.worker_limits import OPEN, WorkerLimits, is_private, server_in
from perdure.webhooks import NoticeInput, Webhook

from ..support.receiver import SECRET, Receiver, receiving

PRIVATE = [
    *(
        "127.0.0.1",
        "127.1",
        "0",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
    ),
    *(
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ),
    *(
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "[fe80::1]",
        "[fd00::1]",
    ),
    *(
        "168.63.129.16",
        "192.0.0.8",
        "192.88.99.1",
        "198.18.0.1",
        "240.0.0.1",
        "100.100.100.200",
        "169.254.169.254",
    ),
    *(
        "[fec0::1]",
        "[5f00::1]",
        "[2001:db8::1]",
        "[64:ff9b::a00:1]",
        "[2002:a00:1::]",
        "[ff02::1]",
        "[::10.0.0.1]",
    ),
]
SPECIAL = [
    *(
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
    ),
    *(
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
    ),
    *(
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "255.255.255.255/32",
    ),
    *(
        "::/128",
        "::1/128",
        "::ffff:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "100:0:0:1::/64",
    ),
    *(
        "2001::/23",
        "2001::/32",
        "2001:1::1/128",
        "2001:1::2/128",
        "2001:1::3/128",
        "2001:2::/48",
        "2001:3::/32",
    ),
    *(
        "2001:4:112::/48",
        "2001:10::/28",
        "2001:20::/28",
        "2001:30::/28",
        "2001:db8::/32",
        "2002::/16",
    ),
    *(
        "2620:4f:8000::/48",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    ),
]
"""IANA's registries of special-purpose addresses, IPv4 and IPv6, and of multicast ones; RFC 3879
has `fec0::/10`. Of those that lead to an IPv4 address, the first and the last lead to one of these
ranges."""
PUBLIC = [
    *(
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.31.195.255",
        "198.17.255.255",
        "223.1.1.1",
    ),
    *(
        "2606:4700::1111",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2620:4f:7fff::1",
        "3ffe:ffff::1",
        "2a00::1",
    ),
    *("64:ff9b::808:808", "::ffff:8.8.8.8"),
]
METADATA = [
    "169.254.169.254",
    "[::ffff:a9fe:a9fe]",
    "metadata.google.internal",
    "metadata.google.internal.",
]


@pytest.mark.parametrize("network", SPECIAL)
def test_each_range_of_a_special_purpose_is_private(network: str) -> None:
    known = ip_network(network)
    assert is_private(known[0])
    assert is_private(known[-1])


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_not_private(address: str) -> None:
    assert not is_private(ip_address(address))


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    monkeypatch.setenv("PERDURE_WEBHOOK_SECRET", SECRET)
    async with receiving() as it:
        yield it


async def sending_fails(url: str, limits: WorkerLimits) -> str:
    """The message with which an attempt at this URL fails."""
    return (await failed(url, limits)).message


async def failed(url: str, limits: WorkerLimits) -> ApplicationError:
    notice = NoticeInput(
        id="msg_1", type="run.done", time=1.0, data={"run": "r"}, webhooks=[Webhook(url=url)]
    )
    with pytest.raises(ApplicationError) as failure:
        await ActivityEnvironment().run(Notifier(limits).send, notice)
    return failure.value


@pytest.mark.parametrize("host", PRIVATE + METADATA)
async def test_no_form_of_a_private_address_is_called(receiver: Receiver, host: str) -> None:
    port = receiver.url.rpartition(":")[2]
    why = await sending_fails(f"http://{host}:{port}/hook", WorkerLimits(hosts=None))
    assert any(
        each in why for each in ("private address", "can't be resolved", "does not call the host")
    ), why
    if host in METADATA:
        assert await sending_fails(f"http://{host}/latest/meta-data", WorkerLimits(hosts=None))
    assert receiver.attempts == []


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(receiver: Receiver, status: int) -> None:
    async with receiving() as other:
        receiver.answer, receiver.location = lambda number: status, f"{other.url}/latest/meta-data"
        assert f"has answered with the status {status}" in await sending_fails(receiver.url, OPEN)
        assert (len(receiver.attempts), other.attempts) == (1, [])


@pytest.mark.parametrize("secret", ["", "whsec_c2hvcnQ="])
async def test_a_notice_that_this_worker_cannot_sign_fails_at_once(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("PERDURE_WEBHOOK_SECRET", secret)
    failure = await failed(receiver.url, OPEN)
    found = "a value that is not a secret" if secret else "no secret"
    assert f"PERDURE_WEBHOOK_SECRET has {found}: expected `whsec_`" in failure.message
    assert failure.non_retryable
    assert receiver.attempts == []


async def test_what_was_looked_at_is_connected_to_whatever_the_name_leads_to_by_then(
    receiver: Receiver,
) -> None:
    port = receiver.url.rpartition(":")[2]
    url = f"http://moves.invalid:{port}/a2a"
    server = server_in(url)
    assert server is not None
    assert await post(url, server, "{}", {}, "127.0.0.1") == 204
    assert receiver.taken == [(" ", {})]
    with pytest.raises(NotPosted, match="can't be reached"):
        await post(url, server, "{}", {}, "127.9.9.9")
