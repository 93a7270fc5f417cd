"""Search attributes on a namespace that does not know them."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from perdure.client.connection import (
    Registration,
    command,
    register_search_attributes,
    set_up_namespace,
)
from perdure.protocol.search_attributes import ALL

from ..support.waiting import wait_for

NAMES = [key.name for key in ALL]


@pytest.fixture
async def bare(client: Client) -> Client:
    """A client of a namespace that has nothing of perdure's."""
    name = f"bare-{uuid4()}"
    request = RegisterNamespaceRequest(namespace=name)
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await client.workflow_service.register_namespace(request, retry=True)
    bare = await Client.connect(client.service_client.config.target_host, namespace=name)

    async def knows_none() -> bool:
        request = ListSearchAttributesRequest(namespace=name)
        return not (
            await bare.operator_service.list_search_attributes(request, retry=True)
        ).custom_attributes

    await wait_for(knows_none)
    return bare


async def test_registering_again_changes_nothing(client: Client) -> None:
    assert await register_search_attributes(client)
    assert await register_search_attributes(client)


async def test_setting_up_says_what_is_new(bare: Client) -> None:
    assert await set_up_namespace(bare) == Registration(added=NAMES)
    assert await set_up_namespace(bare) == Registration(existing=NAMES)


async def test_an_attribute_of_another_type_is_told_and_the_rest_is_added(bare: Client) -> None:
    request = AddSearchAttributesRequest(namespace=bare.namespace)
    request.search_attributes["PerdureCost"] = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    request.search_attributes["PerdureAgent"] = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    await bare.operator_service.add_search_attributes(request, retry=True)
    rest = [name for name in NAMES if name not in ("PerdureCost", "PerdureAgent")]
    expected = Registration(
        existing=["PerdureAgent"], added=rest, mismatched={"PerdureCost": "Keyword"}
    )
    assert await set_up_namespace(bare) == expected


def test_the_command_for_an_administrator_names_all(client: Client) -> None:
    typed = command(client)
    assert "--namespace default --name PerdureAgent --type Keyword" in typed
    assert typed.endswith("--name PerdureCost --type Double")
