"""`perdure serve`: agents over HTTP, in the protocols that programs speak."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ..client.connection import register_search_attributes
from ..errors import ConfigurationError
from ..worker import tune_process
from ..worker_limits import OPEN, WorkerLimits
from . import run_options as options
from .command import execute
from .console import answer, say
from .problems import UsageProblem
from .run_options import DEFAULT_QUEUE
from .server_connection import ServerConnection, connect_to_server
from .user_code import UserCode, load_named, load_user_code, say_mocks
from .worker_inside import worker_inside

try:
    from ..gateway.app import gateway_app
    from ..gateway.gateway import Gateway, OfferedAgent, offers_of
    from ..gateway.identity import Authenticator, Function, OpenId, OpenIdSettings, TokenFile
    from ..payloads.codec_server.app import serve as serve_app
except ImportError as error:
    raise ConfigurationError(
        f"the gateway needs packages that are not installed ({error}): pip install 'perdure[serve]'"
    ) from error

LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT = 8400


def serve(
    agents: Annotated[list[Path], typer.Argument(metavar="AGENT.prompty…", help="The agents that are offered.")],
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    task_queue: options.TaskQueue = DEFAULT_QUEUE,
    mock: options.Mock = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")] = LOOPBACK[0],
    port: Annotated[int, typer.Option(help="The port; 0 is any free one.")] = DEFAULT_PORT,
    tokens: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bearer tokens, and whose they are: perdure docs gateway.")
    ] = None,
    identify: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Given the headers, returns name, tenant and roles, or None."),
    ] = None,
    oidc_issuer: Annotated[
        str | None, typer.Option(metavar="URL", help="Take JSON Web Tokens of this issuer (OpenID Connect).")
    ] = None,
    oidc_audience: Annotated[str | None, typer.Option(metavar="NAME", help="For whom such tokens must be.")] = None,
    oidc_keys: Annotated[
        str | None, typer.Option(metavar="URL|FILE", help="The issuer's keys; default: those it names.")
    ] = None,
    oidc_name_claim: Annotated[str, typer.Option(metavar="CLAIM", help="The claim with the name.")] = "sub",
    oidc_tenant_claim: Annotated[
        str, typer.Option(metavar="CLAIM", help="The claim with the tenant; default: there are no tenants.")
    ] = "",
    oidc_roles_claim: Annotated[
        str, typer.Option(metavar="CLAIM", help="The claim with the roles, such as realm_access.roles.")
    ] = "",
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Ask nobody who they are, at an address that others reach.")
    ] = False,
    origin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Pages of this origin may ask, from a browser.")
    ] = None,
    answer_tasks: Annotated[
        bool,
        typer.Option("--answer-tasks", help="Call the model for titles, tags and the like of chat front ends."),
    ] = False,
    cancel_tasks: Annotated[
        bool, typer.Option("--cancel-tasks", help="Let tasks/cancel of an MCP client cancel a run without a reason.")
    ] = False,
    stream_after: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Stream a text that may precede tool calls, from N characters on."),
    ] = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    as_json: options.AsJson = False,
) -> None:
    """Serve agents over HTTP until Ctrl-C: OpenAI's, MCP's and A2A's protocols, and perdure's own.

    Where no Temporal server is configured, the embedded one is started, and a worker with it. Elsewhere a worker is
    started where --tools, --guardrails or --compactor name its code.
    """
    code = load_user_code(tools or (), guardrails or (), compactor or (), [credentials] if credentials else [])
    offers = offers_of(agents)
    known = _authenticators(
        tokens,
        identify,
        _OpenIdOptions(
            oidc_issuer, oidc_audience, oidc_keys, oidc_name_claim, oidc_tenant_claim, oidc_roles_claim
        ).settings(),
    )
    _require_protected(host, is_open=not known and not open_to_all)
    chosen = {"answers_tasks": answer_tasks, "cancels_tasks": cancel_tasks, "stream_after": stream_after}
    say_mocks(honoured=mock)
    work = _serve(offers, code, known, task_queue, (host, port), origin or (), chosen, mock=mock, as_json=as_json)
    execute(work, is_service=True)


def _require_protected(host: str, *, is_open: bool) -> None:
    if is_open and host not in LOOPBACK:
        raise UsageProblem(
            f"--host {host}: everybody who reaches it could run these agents, and decide for others. Expected "
            f"--tokens, --identify or --oidc-issuer with it, --open where that is meant, or --host {LOOPBACK[0]}"
        )


class _OpenIdOptions:
    """The options about OpenID Connect."""

    def __init__(
        self, issuer: str | None, audience: str | None, keys: str | None, name: str, tenant: str, roles: str
    ) -> None:
        self._issuer, self._audience, self._keys = issuer, audience, keys
        self._claims = {"name_claim": name, "tenant_claim": tenant, "roles_claim": roles}

    def settings(self) -> OpenIdSettings | None:
        """Return the settings; None without an issuer. Raises `UsageProblem` for an issuer without an audience."""
        if not self._issuer:
            return None
        if not self._audience:
            raise UsageProblem(
                "--oidc-issuer needs --oidc-audience: without it, tokens for other services would be taken"
            )
        return OpenIdSettings(self._issuer, self._audience, self._keys or "", **self._claims)


def _authenticators(tokens: Path | None, identify: str | None, openid: OpenIdSettings | None) -> list[Authenticator]:
    known: list[Authenticator] = [TokenFile(tokens)] if tokens else []
    if openid:
        known.append(OpenId(openid))
    if identify:
        found = list(load_named("--identify", [identify]).values())
        if len(found) != 1 or not callable(found[0]):
            raise UsageProblem(f"--identify {identify!r}: expected module:function or file.py:function")
        known.append(Function(found[0]))
    return known


async def _serve(
    offers: dict[str, OfferedAgent],
    code: UserCode,
    authenticators: Sequence[Authenticator],
    task_queue: str,
    address: tuple[str, int],
    origins: Sequence[str],
    chosen: dict[str, Any],
    *,
    mock: bool,
    as_json: bool,
) -> None:
    host, port = address
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(connect_to_server())
        await register_search_attributes(server.client)
        gateway = Gateway(server.client, offers, task_queue, authenticators, **chosen)
        if authenticators:
            await gateway.require_tenants()
        has_worker = server.embedded is not None or mock or bool(code.sources)
        if has_worker:
            tune_process()
            limits = OPEN if server.embedded is not None else WorkerLimits.from_environment()
            inside = worker_inside(server, task_queue=task_queue, code=code, mock=mock, limits=limits)
            await stack.enter_async_context(inside)
        hosts = (*LOOPBACK, "[::1]") if host in LOOPBACK else ("*",)
        app = gateway_app(gateway, hosts=hosts, origins=origins)
        url = await stack.enter_async_context(serve_app(app, host, port, what="The gateway"))
        _say_where(url, server, offers, is_open=not authenticators, has_worker=has_worker, task_queue=task_queue)
        if as_json:
            answer({"url": url, "agents": list(offers), "taskQueue": task_queue, "worker": has_worker})
        await asyncio.Event().wait()


def _say_where(
    url: str,
    server: ServerConnection,
    offers: dict[str, OfferedAgent],
    *,
    is_open: bool,
    has_worker: bool,
    task_queue: str,
) -> None:
    """Say what is served, and what to paste into a client."""
    first, key = next(iter(offers)), "anything" if is_open else "TOKEN"
    say(f"Gateway: {url}   agents: {', '.join(offers)}", "strong")
    say(f"on {server.place}, task queue {task_queue!r}, {'with a worker' if has_worker else 'workers elsewhere'}")
    say(f'OpenAI:  client = OpenAI(base_url="{url}/v1", api_key="{key}")')
    say(f'         client.chat.completions.create(model="{first}", messages=[…])')
    if find_spec("mcp"):
        header = "" if is_open else ' --header "Authorization: Bearer TOKEN"'
        say(f"MCP:     claude mcp add --transport http perdure {url}/mcp/{header}")
    if find_spec("a2a"):
        say(f"A2A:     {url}/a2a/{first}/.well-known/agent-card.json")
    say(f"perdure: {url}/perdure/openapi.json")
