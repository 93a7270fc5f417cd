"""Live tracing: what is exported, when, and below what."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider
from temporalio.client import Client

from perdure.errors import ConfigurationError
from perdure.messages import Message
from perdure.testing import ScriptedModel, asks, call, says
from perdure.trace.content import CAPTURE
from perdure.worker import create_worker

from ..support.agents import scripted_agent
from ..support.tracing import TracedStage, names, require_one_trace, span_id

LOOKS_SECRET = "sk-" + "abcdefghijklmnopqrstuvwx"


@pytest.fixture
def traced(client: Client, task_queue: str) -> TracedStage:
    return TracedStage(client, task_queue)


async def test_the_users_own_spans_are_below_the_tool_and_the_run_links_to_its_callers(
    traced: TracedStage,
) -> None:
    tracer = traced.provider.get_tracer("mine")

    def plain(text: str = "") -> str:
        with tracer.start_as_current_span("in a thread"):
            return text

    async def on_a_loop(text: str = "") -> str:
        with tracer.start_as_current_span("on a loop"):
            return text

    two = asks(call("plain", "call_1"), call("on_a_loop", "call_2"))
    with ScriptedModel([two, says("done")]) as model:
        async with traced.worker({"plain": plain, "on_a_loop": on_a_loop}, tool_loop=None):
            with tracer.start_as_current_span("caller") as caller:
                run = await traced.start(scripted_agent(model, ["plain", "on_a_loop"]))
            await run.result()
    spans = by_name(traced.live)
    assert below(spans["in a thread"], spans["execute_tool plain"])
    assert below(spans["on a loop"], spans["execute_tool on_a_loop"])
    assert below(spans["execute_tool plain"], spans["invoke_agent tested"])
    assert [link.context.span_id for link in spans["invoke_agent tested"].links] == [
        caller.get_span_context().span_id
    ]
    own = [
        span
        for span in traced.live
        if span.instrumentation_scope and span.instrumentation_scope.name == "perdure"
    ]
    require_one_trace(own, await run.trace())


async def test_an_attempt_that_temporal_retries_exports_nothing(traced: TracedStage) -> None:
    tries: list[int] = []

    async def flaky(dropped: list[Message]) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("not yet")
        return "summary"

    long = [Message.user(f"{number} " + "x" * 400) for number in range(8)]
    with ScriptedModel([says("done")]) as model:
        async with traced.worker(compactors={"flaky": flaky}):
            run = await traced.start(
                scripted_agent(model), long, context_budget=1500, compactor="flaky"
            )
            await run.result()
    rebuilt = await run.trace()
    assert sorted(names(traced.live)) == ["chat scripted", "compact", "invoke_agent tested"]
    require_one_trace(traced.live, rebuilt)
    compact = by_name(rebuilt)["compact"]
    assert (compact.attributes or {})["perdure.attempt"] == 2
    assert [event.name for event in compact.events] == ["attempt failed"]


async def test_a_sampler_decides_about_the_whole_trace(traced: TracedStage) -> None:
    provider = TracerProvider(TraceIdRatioBased(0.0), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(traced.exporter))
    with ScriptedModel([says("done")]) as model:
        async with traced.worker(tracer_provider=provider):
            run = await traced.start(scripted_agent(model))
            await run.result()
    assert traced.live == ()
    assert names(await run.trace()) == ["invoke_agent tested", "chat scripted"]


async def test_what_fails_in_tracing_is_logged_and_harms_no_run(
    traced: TracedStage, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Span, parent_context: Context | None = None) -> None:
            raise RuntimeError("no more spans")

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Broken())
    with ScriptedModel([asks(call("echo")), says("done")]) as model:
        async with traced.worker({"echo": lambda text="": text}, tracer_provider=provider):
            run = await traced.start(scripted_agent(model, ["echo"]))
            assert (await run.result()).output == "done"
    assert f"a span of run {run.id} can't be started" in caplog.text
    assert "no more spans" in caplog.text


async def test_content_is_there_when_the_environment_asks_for_it_and_without_secrets(
    traced: TracedStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    asked = [Message.system("You help."), Message.user(f"My key is {LOOKS_SECRET}.")]
    with ScriptedModel([asks(call("echo", "call_1", text=LOOKS_SECRET)), says("done")]) as model:
        async with traced.worker({"echo": lambda text="": text}):
            run = await traced.start(scripted_agent(model, ["echo"]), asked)
            await run.result()
    require_one_trace(traced.live, await run.trace())
    root = by_name(await run.trace(content=True))["invoke_agent tested"]
    assert "My key is [REDACTED]." in str((root.attributes or {})["gen_ai.input.messages"])
    said = text_of(await run.trace(content=True))
    assert "gen_ai.input.messages" in said
    assert "My key is [REDACTED]." in said
    assert LOOKS_SECRET not in said
    assert LOOKS_SECRET not in text_of(traced.live)
    assert "You help." not in text_of(await run.trace(content=False))


def test_a_provider_that_can_not_export_is_refused(client: Client) -> None:
    class Strange(NoOpTracerProvider):
        def get_tracer(self, *arguments: object, **more: object) -> object:  # type: ignore[override]
            return None

    with pytest.raises(
        ConfigurationError, match=r"expected an opentelemetry\.sdk\.trace\.TracerProvider"
    ):
        create_worker(client, tracer_provider=Strange())


def by_name(spans: Iterable[ReadableSpan]) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans}


def below(span: ReadableSpan, parent: ReadableSpan) -> bool:
    return span.parent is not None and span.parent.span_id == span_id(parent)


def text_of(spans: Iterable[ReadableSpan]) -> str:
    return "\n".join(span.to_json() for span in spans)
