"""Registers perdure's search attributes with a namespace."""

from __future__ import annotations

from dataclasses import dataclass, field

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..errors import ConfigurationError
from ..protocol import search_attributes

_REFUSALS = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.UNAUTHENTICATED)


@dataclass
class Registration:
    """What a namespace has of perdure's search attributes."""

    existing: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    mismatched: dict[str, str] = field(default_factory=dict)
    """Name → the type that it has there; the server gives a name only one."""


async def set_up_namespace(client: Client) -> Registration:
    """Add the search attributes that the namespace lacks, and say which there were; calling it again changes nothing.

    The server accepts a known name with another type, and ignores that type, so it is asked first what it has. Raises
    `ConfigurationError` where only an administrator may ask and add, and `RPCError` when the server refuses otherwise.
    """
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        found = Registration()
        for key in search_attributes.ALL:
            type = listed.custom_attributes.get(key.name)
            if type is None:
                found.added.append(key.name)
            elif int(type) == int(key.indexed_value_type):
                found.existing.append(key.name)
            else:
                found.mismatched[key.name] = type_name(type)
        if found.added:
            await client.operator_service.add_search_attributes(_request(client, found.added))
    except RPCError as error:
        if error.status not in _REFUSALS:
            raise
        raise ConfigurationError(
            f"search attributes can't be registered in the namespace {client.namespace!r}: {error.message} "
            f"({error.status.name}). Expected the rights of an administrator; one can type: {command(client)}"
        ) from error
    return found


async def register_search_attributes(client: Client) -> bool:
    """Add the search attributes that the namespace lacks; calling it again changes nothing.

    Returns False where only an administrator may add them, as in Temporal Cloud. Raises `RPCError` when the server
    can't be asked.
    """
    try:
        await client.operator_service.add_search_attributes(
            _request(client, [key.name for key in search_attributes.ALL])
        )
    except RPCError as error:
        if error.status in _REFUSALS:
            return False
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
    return True


def type_name(value_type: int) -> str:
    """A search attribute's type, as Temporal's command line spells it: `Keyword`, `Double`, `KeywordList`."""
    try:
        name = IndexedValueType.Name(IndexedValueType.ValueType(value_type))
    except ValueError:
        return f"type {value_type}"
    return name.removeprefix("INDEXED_VALUE_TYPE_").title().replace("_", "")


def command(client: Client) -> str:
    """What an administrator types to register all of them."""
    words = [f"--name {key.name} --type {type_name(int(key.indexed_value_type))}" for key in search_attributes.ALL]
    return f"temporal operator search-attribute create --namespace {client.namespace} {' '.join(words)}"


def _request(client: Client, names: list[str]) -> AddSearchAttributesRequest:
    request = AddSearchAttributesRequest(namespace=client.namespace)
    for key in search_attributes.ALL:
        if key.name in names:
            request.search_attributes[key.name] = IndexedValueType.ValueType(key.indexed_value_type)
    return request
