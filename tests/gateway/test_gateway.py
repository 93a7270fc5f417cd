"""What all dialects stand on."""

from __future__ import annotations

from perdure.gateway.gateway import scoped_id
from perdure.gateway.identity import Identity


def test_ids_of_two_tenants_never_meet() -> None:
    tenants = [None, "a", "a:b", "a%3Ab", "b"]
    chosen = ["x", "b:x", "a:b:x", "a%3Ab:x"]
    owners: dict[str, set[str | None]] = {}
    for tenant in tenants[1:]:
        for id in chosen:
            scoped = scoped_id(Identity("n", tenant), id)
            owners.setdefault(scoped, set()).add(tenant)
            assert scoped_id(Identity("n", tenant), scoped) == scoped
    assert all(len(each) == 1 for each in owners.values())
    assert scoped_id(Identity("n"), "b:x") == "b:x"
