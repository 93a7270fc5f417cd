"""A credential is named by its id in what is recorded, and its secret is sent to the provider and
to tools alone.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.activities.credentials import CredentialError, Credentials
from perdure.agents import Agent
from perdure.client import RunHandle
from perdure.errors import ConfigurationError, RunError
from perdure.prompty.load import load_dict
from perdure.testing import ScriptedReply, asks, call, says
from perdure.testing.script import Script, ScriptedRequest
from perdure.tools.user_loop import ThisLoop
from perdure.worker import create_worker

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.hosts import serving
from ..support.mcp_server import make_server
from ..support.recorded import everything_said
from ..support.stage import Stage
from ..support.waiting import asked, wait_for

MODEL_SECRET, TOOL_SECRET = "the-models-own-word-7391", "pass/word+of the crm=0042"
SECRETS = {"model": MODEL_SECRET, 42: TOOL_SECRET}
KEY = "${credential:model}"
EXPIRED = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32000, "message": "the token has expired"},
}
"""As some servers write it: in the form of an answer."""


def demanding(replies: list[ScriptedReply], secret: str = MODEL_SECRET) -> Script:
    """A provider that answers to nobody without the secret, and repeats what it was sent
    instead.
    """

    def reply(request: ScriptedRequest) -> ScriptedReply:
        sent = request.headers.get("x-api-key") or request.headers.get(
            "authorization", ""
        ).removeprefix("Bearer ")
        if sent != secret:
            return ScriptedReply(
                status=401, error={"error": {"message": f"no: {sent}", "type": "authentication"}}
            )
        return replies[request.step]

    return reply


def guarded(app: ASGIApp, seen: list[str]) -> ASGIApp:
    """The server, for those who send the tool's secret."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            seen.append(Request(scope).headers.get("authorization", ""))
            if seen[-1] != f"Bearer {TOOL_SECRET}":
                return await JSONResponse({"error": seen[-1]}, 401)(scope, receive, send)
        await app(scope, receive, send)

    return guard


def no_secret_in(said: str) -> bool:
    return not any(
        secret in said or json.dumps(secret)[1:-1] in said for secret in (MODEL_SECRET, TOOL_SECRET)
    )


async def test_the_provider_gets_the_secret_and_the_history_its_id(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted(demanding([says(f"You sent {MODEL_SECRET}.")]))
    async with stage.worker(credentials=SECRETS):
        run = await stage.start(scripted_agent(model, api_key=KEY))
        await run.result()
    said = await everything_said(stage.client, run)
    assert KEY in said
    assert no_secret_in(said.replace(f"You sent {MODEL_SECRET}.", ""))


async def test_a_credential_that_was_exchanged_is_asked_for_again(
    stage: Stage, scripted: Scripted
) -> None:
    current = ["an-old-secret-of-yesterday"]
    model = scripted(lambda request: demanding([says("one")], current[0])(request))
    async with stage.worker(credentials=lambda id: current[0]):
        assert (
            await (await stage.start(scripted_agent(model, api_key=KEY))).result()
        ).output == "one"
        current[0] = "the-new-secret-of-today"
        assert (
            await (await stage.start(scripted_agent(model, api_key=KEY))).result()
        ).output == "one"
    assert len(model.requests) == 3


async def test_a_tool_is_called_once_more_with_the_token_that_follows_one_that_has_ended(
    stage: Stage, scripted: Scripted
) -> None:
    """Three tokens of two requests each: no call is lost, none executed twice, and the vault is
    asked once for each.
    """
    asked: list[str] = []
    accepted: dict[str, int] = {}
    refused: list[str] = []
    written: list[str] = []
    server = make_server()

    def vault(id: str) -> str:
        asked.append(id)
        return f"token-number-{len(asked)}"

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            token = Request(scope).headers.get("authorization", "")
            if accepted.setdefault(token, 0) >= 4:
                refused.append(token)
                return await JSONResponse(EXPIRED, 401)(scope, receive, send)
            accepted[token] += 1
            written.append(Request(scope).headers.get("mcp-method", ""))
        await app(scope, receive, send)

    app = server.streamable_http_app()
    with serving(guard) as url:
        connection = {"kind": "key", "endpoint": f"{url}/mcp", "apiKey": "${credential:crm}"}
        tool = {"name": "crm", "kind": "mcp", "connection": connection, "allowedTools": ["echo"]}
        turns = [
            asks(*(call("echo", f"{turn}{each}", text=f"{turn}{each}") for each in "ab"))
            for turn in range(3)
        ]
        async with stage.worker(credentials=vault):
            run = await stage.start(
                scripted_agent(scripted([*turns, says("done")]), [tool]), parallel_tool_calls=True
            )
            texts = tool_texts((await run.result()).messages)
    assert texts == [f"{turn}{each}" for turn in range(3) for each in "ab"]
    assert written.count("tools/call") == 6
    assert refused
    assert len(asked) == len(accepted)


def _raises(id: str) -> str:
    raise ConnectionError(f"the vault with {MODEL_SECRET} is closed")


def _number(id: str) -> Any:
    return 12345678


MISSING = {
    "no credentials at all": (
        None,
        r"names the credential 'model', which this worker does not have \(it has none\)",
    ),
    "another id": (
        {"crm": "x" * 20},
        r"it has: crm\): give it to the workers by create_worker\(credentials=…\)",
    ),
    "unknown to the function": (
        lambda id: None,
        r"its function knows no such id\).*perdure worker --credentials",
    ),
    "raised": (
        _raises,
        r"credentials failed for 'model': ConnectionError: the vault with .* is closed",
    ),
    "no text": (_number, r"credentials gave int for 'model': expected its secret as a text"),
    "empty": ({"model": " "}, r"credentials gave an empty text for 'model'"),
}


async def test_what_is_missing_keeps_a_run_from_beginning(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says("never")])
    for source, problem in MISSING.values():
        async with stage.worker(credentials=source):
            run = await stage.start(scripted_agent(model, api_key=KEY), missing_tool_grace=0)
            with pytest.raises(RunError, match=problem) as failed:
                await run.result()
        assert failed.value.kind == "configuration"
    assert model.requests == []


def _agent() -> Agent:
    return load_dict({"model": {"id": "m", "connection": {"kind": "key", "apiKey": KEY}}})


async def test_a_function_that_hangs_is_given_up() -> None:
    async def vault(id: str) -> str:
        await asyncio.Event().wait()
        return ""

    with pytest.raises(
        CredentialError, match=r"gave no answer within 0\.05 s for 'model'"
    ) as failed:
        await Credentials(vault, ThisLoop(), seconds=0.05).for_compactor(_agent())
    assert failed.value.is_late


class _Unreadable(dict[str, str]):
    def get(self, id: Any, default: Any = None) -> Any:
        raise OSError("the vault is away")


class _Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError


def _fails(id: str) -> str:
    raise _Wordless


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (_Unreadable(), "failed for 'model': OSError: the vault is away"),
        (_fails, "failed for 'model': _Wordless"),
    ],
)
async def test_whatever_fails_is_an_error_of_credentials(source: Any, why: str) -> None:
    with pytest.raises(CredentialError, match=why):
        await Credentials(source, ThisLoop()).for_compactor(_agent())


async def test_a_secret_of_a_file_ends_before_its_line_does() -> None:
    given = await Credentials({"model": "a word\n"}, ThisLoop()).for_compactor(_agent())
    assert given.model
    assert given.model.connection
    assert given.model.connection.api_key == "a word"


async def test_a_function_that_fails_in_the_middle(stage: Stage, scripted: Scripted) -> None:
    """What it does to a tool becomes the tool's result, and a model call is retried."""
    failing = {"42": 1, "model": 1}

    def vault(id: str) -> str:
        failing[id] -= 1
        return MODEL_SECRET if failing[id] < 0 else _raises(id)

    with serving(guarded(make_server().streamable_http_app(), [])) as url:
        connection = {"kind": "key", "endpoint": f"{url}/mcp", "apiKey": "${credential:42}"}
        tool = {"name": "crm", "kind": "mcp", "connection": connection, "allowedTools": ["echo"]}
        model = scripted(demanding([asks(call("echo", "c", text="x")), says("done")]))
        agent = scripted_agent(model, [{**tool, "perdure": {"approval": "always"}}], api_key=KEY)
        run = await waiting_run(stage, agent)
        async with stage.worker(credentials=vault):
            await run.approve("c")
            [text] = tool_texts((await run.result()).messages)
    assert text.startswith(
        "Error: Tool 'echo' failed: The worker's credentials failed for '42': ConnectionError"
    )
    said = await everything_said(stage.client, run)
    assert "LLM call failed, retrying (attempt 2/3)" in said
    assert no_secret_in(said)


async def test_a_call_is_left_to_a_worker_that_has_the_credential(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted(demanding([asks(call("note", "c", text="x")), says("done")]))
    note = {"name": "note", "kind": "function", "perdure": {"approval": "always"}}
    tools = {"note": lambda: "noted"}
    run = await waiting_run(stage, scripted_agent(model, [note], api_key=KEY), tools)

    async def missing() -> list[str]:
        found = (await run.status()).missing
        return found.what if found else []

    async with stage.worker(tools, credentials={}):
        await run.approve("c")
        assert await wait_for(missing) == ["credential 'model'"]
        async with stage.another_worker(tools, credentials=SECRETS):
            assert (await run.result()).output == "done"


async def waiting_run(stage: Stage, agent: Agent, tools: Any = ()) -> RunHandle:
    """A run that waits for an approval, and has no worker any more."""
    async with stage.worker(tools, credentials=SECRETS):
        run = await stage.start(agent)
        await asked(run)
    return run


def test_what_can_have_no_secrets(client: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="credentials is list: expected a mapping from ids to secrets"
    ):
        create_worker(client, credentials=["a"])  # type: ignore[arg-type]
