"""Search attributes on a namespace that does not know them."""

from __future__ import annotations

from temporalio.client import Client

from perdure.client.registration import register_search_attributes


async def test_registering_again_changes_nothing(client: Client) -> None:
    assert await register_search_attributes(client)
    assert await register_search_attributes(client)
