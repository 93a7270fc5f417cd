"""Registers perdure's search attributes with a namespace."""

from __future__ import annotations

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..protocol import search_attributes

_REFUSALS = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.UNAUTHENTICATED)


async def register_search_attributes(client: Client) -> bool:
    """Add the search attributes that the namespace lacks; calling it again changes nothing.

    Returns False where only an administrator may add them, as in Temporal Cloud. Raises `RPCError` when the server
    can't be asked.
    """
    request = AddSearchAttributesRequest(namespace=client.namespace)
    for key in search_attributes.ALL:
        request.search_attributes[key.name] = IndexedValueType.ValueType(key.indexed_value_type)
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        if error.status in _REFUSALS:
            return False
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
    return True
