"""A web server whose requests start runs, follow them and decide for them: `uvicorn app:app`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from perdure import ApprovalError, RunEvent, RunNotFound, load
from perdure.client import RunHandle, RunOptions, connect, get_run, start_run

AGENT = load(Path(__file__).with_name("clerk.prompty"), defer_environment=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.client = await connect()  # one client for all requests
    yield


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    id: str
    question: str


class Decision(BaseModel):
    call_id: str
    digest: str
    by: str


@app.post("/runs", status_code=202)
async def ask(question: Question, request: Request) -> dict[str, str]:
    """Start a run under the id that the caller chose, so that a repeated request starts nothing
    twice.
    """
    client, id = request.app.state.client, f"clerk-{question.id}"
    inputs, once = {"question": question.question}, WorkflowIDReusePolicy.REJECT_DUPLICATE
    with suppress(WorkflowAlreadyStartedError):
        await start_run(
            client, AGENT, inputs, id=id, options=RunOptions(stream=True), id_reuse_policy=once
        )
    return {"id": id}


@app.get("/runs/{id}")
async def status(id: str, request: Request) -> dict[str, Any]:
    """The status of the run, with the calls that wait for a person."""
    return (await _run(request, id).status()).model_dump(mode="json")


@app.get("/runs/{id}/events")
async def events(id: str, request: Request) -> StreamingResponse:
    """The run's events as they come. A browser that reconnects names the last one that it has."""
    after = request.headers.get("last-event-id", "0")
    return StreamingResponse(_sse(_run(request, id).stream(after)), media_type="text/event-stream")


@app.post("/runs/{id}/approvals")
async def approve(id: str, decision: Decision, request: Request) -> dict[str, str]:
    """Approve the call that the person has seen: the digest names its arguments."""
    try:
        await _run(request, id).approve(decision.call_id, digest=decision.digest, by=decision.by)
    except ApprovalError as error:
        raise HTTPException(409, str(error)) from error
    return {"approved": decision.call_id}


@app.exception_handler(RunNotFound)
async def not_found(request: Request, error: RunNotFound) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 404)


def _run(request: Request, id: str) -> RunHandle[Any]:
    return get_run(request.app.state.client, id)


async def _sse(stream: AsyncIterator[RunEvent]) -> AsyncIterator[str]:
    async for event in stream:
        yield f"id: {event.position}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"
