"""Who may have payloads decoded: whoever the operator's function lets in, or who has the token."""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from ...logs import get_logger

logger = get_logger("perdure.codec_server")

TOKEN_VARIABLE = "PERDURE_CODEC_TOKEN"
"""The environment variable with the token that requests must bring."""
Authorize = Callable[[Mapping[str, str], str], Any]
"""Is given the request's headers, whose names are in lower case, and the namespace; true lets the request in."""


@dataclass(frozen=True)
class Access:
    """What a request must have; all of what is given here."""

    namespaces: Collection[str] = ()
    """Those of which payloads are decoded; none for all."""
    token: str = ""
    authorize: Authorize | None = None

    @property
    def is_open(self) -> bool:
        """Whether everybody is let in who reaches the server."""
        return not self.token and self.authorize is None

    async def require(self, headers: Mapping[str, str]) -> None:
        """Raises `HTTPException` for a request that is not let in."""
        namespace = headers.get("x-namespace", "")
        given = headers.get("authorization", "").encode()
        if self.token and not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
            raise HTTPException(401, f"expected the header Authorization: Bearer, with the token of {TOKEN_VARIABLE}")
        if self.namespaces and namespace not in self.namespaces:
            raise HTTPException(403, "payloads of this namespace (X-Namespace) are not decoded here")
        if self.authorize is not None and not await self._asked(self.authorize, headers, namespace):
            raise HTTPException(403, "not allowed")

    async def _asked(self, authorize: Authorize, headers: Mapping[str, str], namespace: str) -> bool:
        """What the function says; no, where it fails."""
        known = {name.lower(): value for name, value in headers.items()}
        try:
            if inspect.iscoroutinefunction(authorize):
                return bool(await authorize(known, namespace))
            return bool(await run_in_threadpool(authorize, known, namespace))
        except Exception as error:  # Whatever the function raises: who can't be judged is not let in.
            logger.warning("the function that authorises requests failed, and lets nobody in: %s", type(error).__name__)
            return False
