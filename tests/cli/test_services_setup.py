"""`perdure setup` on a namespace that has one of the search attributes with another type."""

from __future__ import annotations

import json

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client

from ..client.test_connection_registration import bare as bare
from ..support.command_line import Cli


async def test_setup_adds_the_rest_and_fails(bare: Client, cli: Cli) -> None:
    request = AddSearchAttributesRequest(namespace=bare.namespace)
    request.search_attributes["PerdureCost"] = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    await bare.operator_service.add_search_attributes(request, retry=True)
    finished = await cli("--namespace", bare.namespace, "setup", "--json")
    assert finished.code == 1
    told = json.loads(finished.stdout)
    [wrong] = [each["about"] for each in told["unfit"] if each["id"] == "search-attribute-type"]
    assert (wrong["name"], wrong["type"], wrong["expected"]) == ("PerdureCost", "Keyword", "Double")
    assert (len(told["added"]), told["existing"]) == (5, [])
    assert "--name PerdureCost --yes, and then again: perdure setup" in finished.stderr
