"""Says in perdure's words that there is no such run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.service import RPCError, RPCStatusCode

from ...errors import RunNotFound
from ...history.chain import Chain

_HAS_ENDED = "already completed"


@contextmanager
def found(chain: Chain) -> Iterator[None]:
    """Within it, Temporal's "not found" is raised as `RunNotFound`."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise RunNotFound(_explained(chain, error)) from error


def _explained(chain: Chain, error: RPCError) -> str:
    if _HAS_ENDED in error.message:
        return f"the run {chain.workflow_id!r} has ended: it takes no more messages"
    client = chain.client
    return (
        f"there is no run {chain.workflow_id!r} in the namespace {client.namespace!r} of the server at "
        f"{client.service_client.config.target_host} ({error.message}). Expected an id that `perdure ls` lists"
    )
