"""The span of the caller's own trace in which a run is started."""

from __future__ import annotations

import sys

from ..trace_ids import traceparent


def current_traceparent() -> str:
    """The current OpenTelemetry span as a W3C `traceparent`; "" when there is none.

    OpenTelemetry is not imported for it: a span can only be there where somebody else has.
    """
    if "opentelemetry.trace" not in sys.modules:
        return ""
    from opentelemetry.trace import get_current_span

    context = get_current_span().get_span_context()
    return traceparent(context.trace_id, context.span_id) if context.is_valid else ""
