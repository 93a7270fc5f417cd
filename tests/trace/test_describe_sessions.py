"""The runs of a session are traced like any others, and each span says which session it belongs
to.
"""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

from ..support.agents import Scripted
from ..support.sessions import SessionStage, talk
from ..support.tracing import PRICES, require_one_trace, trace_id


async def test_live_and_rebuilt(client: Client, task_queue: str, scripted: Scripted) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    session = SessionStage(client, task_queue, scripted(talk))
    session.gate.open.set()
    async with session.worker(tracer_provider=provider, prices=PRICES):
        await session.start()
        await session.said("long 9000")
        await session.said("hold")
        await session.idle()
    live = exporter.get_finished_spans()
    for turn in (1, 2):
        rebuilt = await session.run(turn).trace()
        own = [span for span in live if trace_id(span) == trace_id(rebuilt[0])]
        require_one_trace(own, rebuilt)
        assert {(span.attributes or {})["gen_ai.conversation.id"] for span in own} == {session.id}
    assert len({trace_id(span) for span in live}) == 2
