"""`perdure setup`: register perdure's search attributes with a server's namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import options
from .console import answer, say
from .problems import FAILED
from .running import execute
from .session import Session, open_session

if TYPE_CHECKING:
    from ..client.registration import Registration


def setup(as_json: options.AsJson = False) -> None:
    """Register what runs are found by (search attributes) in the server's namespace.

    Needed once for each namespace, with the rights of an administrator; the embedded server has them. Exit code 1 when
    one exists with another type.
    """
    execute(_set_up(as_json))


async def _set_up(as_json: bool) -> int:
    from ..client.registration import set_up_namespace

    async with open_session() as session:
        found = await set_up_namespace(session.client)
        _tell(session, found, as_json)
    return FAILED if found.mismatched else 0


def _tell(session: Session, found: Registration, as_json: bool) -> None:
    from ..client.registration import type_name
    from ..protocol.search_attributes import ALL

    namespace = session.client.namespace
    expected = {key.name: type_name(int(key.indexed_value_type)) for key in ALL}
    wrong = [{"name": name, "type": type, "expected": expected[name]} for name, type in found.mismatched.items()]
    if as_json:
        place = {"address": session.client.service_client.config.target_host, "namespace": namespace}
        answer({**place, "existing": found.existing, "added": found.added, "mismatched": wrong})
    else:
        for name, type in expected.items():
            state = "added" if name in found.added else "exists" if name in found.existing else "has another type"
            answer(f"{name:<16} {type:<8} {state}")
    for each in wrong:
        say(
            f"{each['name']} exists in the namespace {namespace!r} as {each['type']}, expected {each['expected']}: "
            "runs leave it unset there. If nothing else uses it, type: temporal operator search-attribute remove "
            f"--namespace {namespace} --name {each['name']} --yes, and then again: perdure setup",
            "bad",
        )
