"""`perdure serve`: agents over HTTP, in the protocols that programs speak."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..client.connection import register_search_attributes
from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..providers.rates import parsed_rates
from ..worker import tune_process
from ..worker_limits import OPEN, WorkerLimits
from . import shared_options as options
from .agent_file import require_file
from .command import execute
from .console import answer, say
from .problems import UsageProblem
from .run_options import run_options
from .server_connection import ServerConnection, connect_to_server
from .shared_options import DEFAULT_QUEUE, endpoint
from .user_code import UserCode, load_named, load_user_code, say_mocks
from .worker import stdin_closed
from .worker_inside import worker_inside

try:
    from ..gateway.app import gateway_app
    from ..gateway.gateway import Gateway, OfferedAgent, offers_of
    from ..gateway.identity import Authenticator, Function, OpenId, OpenIdSettings, TokenFile
    from ..gateway.limits import USUAL_LIMITS, Limits
    from ..gateway.sse import STREAM_SECONDS
    from ..payloads.codec_server.app import serve as serve_app
except ImportError as error:
    raise ConfigurationError(
        f"the gateway needs packages that are not installed ({error}): pip install 'perdure[serve]'"
    ) from error

LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT = 8400


def serve(
    agents: Annotated[
        list[Path], typer.Argument(metavar="AGENT.prompty…", help="The agents that are offered.")
    ],
    tools: options.Tools = None,
    guardrails: options.GuardrailNames = None,
    compactor: options.Compactors = None,
    credentials: options.Credentials = None,
    task_queue: options.TaskQueue = DEFAULT_QUEUE,
    mock: options.Mock = False,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen at.")
    ] = LOOPBACK[0],
    port: Annotated[int, typer.Option(help="The port; 0 is any free one.")] = DEFAULT_PORT,
    tokens: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Bearer tokens and their owners: perdure docs gateway."),
    ] = None,
    identify: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Given the headers, returns name, tenant and roles, or None.",
        ),
    ] = None,
    oidc_issuer: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Take JSON Web Tokens of this issuer (OpenID Connect)."),
    ] = None,
    oidc_audience: Annotated[
        str | None, typer.Option(metavar="NAME", help="For whom such tokens must be.")
    ] = None,
    oidc_keys: Annotated[
        str | None,
        typer.Option(metavar="URL|FILE", help="The issuer's keys; default: those it names."),
    ] = None,
    oidc_name_claim: Annotated[
        str, typer.Option(metavar="CLAIM", help="The claim with the name.")
    ] = "sub",
    oidc_tenant_claim: Annotated[
        str,
        typer.Option(
            metavar="CLAIM", help="The claim with the tenant; default: there are no tenants."
        ),
    ] = "",
    oidc_roles_claim: Annotated[
        str,
        typer.Option(metavar="CLAIM", help="The claim with the roles, such as realm_access.roles."),
    ] = "",
    open_to_all: Annotated[
        bool,
        typer.Option(
            "--open", help="Serve without authentication, at an address that others reach."
        ),
    ] = False,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Pages of this origin may ask, from a browser."),
    ] = None,
    max_request_bytes: Annotated[
        int, typer.Option(min=1024, help="The size of a request.")
    ] = USUAL_LIMITS.max_bytes,
    max_open: Annotated[
        int, typer.Option(min=1, help="Requests and streams of this process at a time.")
    ] = USUAL_LIMITS.max_open,
    max_open_each: Annotated[
        int, typer.Option(min=1, help="The same of each client.")
    ] = USUAL_LIMITS.max_open_each,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="N/s",
            help="Requests of each client at this process: 20/s, 300/min. Default: no limit.",
        ),
    ] = None,
    answer_tasks: Annotated[
        bool,
        typer.Option(
            "--answer-tasks",
            help="Call the model for titles, tags and the like of chat front ends.",
        ),
    ] = False,
    cancel_tasks: Annotated[
        bool,
        typer.Option(
            "--cancel-tasks",
            help="Let tasks/cancel of an MCP client cancel a run without a reason.",
        ),
    ] = False,
    stream_seconds: Annotated[
        float,
        typer.Option(
            min=1, metavar="SECONDS", help="How long streams last that can be gone on with."
        ),
    ] = STREAM_SECONDS,
    stream_after: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Hold the first N characters of a text back: it may precede tool calls.",
        ),
    ] = 0,
    grace: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="Time for open requests and streams to finish."
        ),
    ] = 5.0,
    metrics_address: options.MetricsAddress = None,
    webhook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help=(
                "Webhooks: notify a URL when a run waits, is held or ends (perdure docs webhooks)."
            ),
        ),
    ] = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    as_json: options.AsJson = False,
    ends_with_stdin: Annotated[
        bool, typer.Option(hidden=True, help="End when stdin is closed.")
    ] = False,
) -> None:
    """Serve agents over HTTP until Ctrl-C, in the protocols of OpenAI, MCP, A2A, AG-UI, AI SDK, and
    its own.

    Where no Temporal server is configured, the embedded one is started, and a worker with it.
    Elsewhere a worker is started where --tools, --guardrails or --compactor name its code.
    """
    code = load_user_code(
        tools or (), guardrails or (), compactor or (), [credentials] if credentials else []
    )
    for path in agents:
        require_file(path)
    offers = offers_of(agents)
    known = _authenticators(
        tokens,
        identify,
        _OpenIdOptions(
            oidc_issuer,
            oidc_audience,
            oidc_keys,
            oidc_name_claim,
            oidc_tenant_claim,
            oidc_roles_claim,
        ).settings(),
    )
    _require_protected(host, is_open=not known and not open_to_all)
    limits = Limits(max_request_bytes, max_open, max_open_each, _rate(rate))
    metrics = endpoint(metrics_address)
    chosen = {
        "hooks": _hooks_of(code),
        "answers_tasks": answer_tasks,
        "cancels_tasks": cancel_tasks,
        "stream_after": stream_after,
        "stream_seconds": stream_seconds,
        "webhooks": run_options({"webhooks": webhook or ()}).webhooks,
    }
    say_mocks(honoured=mock)
    work = _serve(
        offers,
        code,
        known,
        task_queue,
        _Place(host, port, allow_origin or (), limits, grace),
        chosen,
        mock=mock,
        as_json=as_json,
        end=stdin_closed if ends_with_stdin else asyncio.Event().wait,
    )
    execute(work, is_service=True, metrics=metrics, grace=grace)


def _hooks_of(code: UserCode) -> JsonObject:
    """Return the options of runs that name the code, where there is one of its kind: of several,
    agents' files choose.

    Text that is to be checked is not streamed before it is.
    """
    found: JsonObject = {"guardrails": code.guardrails, "compactor": code.compactors}
    hooks: JsonObject = {
        field: next(iter(named)) for field, named in found.items() if len(named) == 1
    }
    return (
        {**hooks, "stream": False}
        if any(each.output for each in code.guardrails.values())
        else hooks
    )


def _rate(text: str | None) -> float | None:
    """Return requests per second. Raises `UsageProblem`."""
    try:
        return None if text is None else parsed_rates([f"each client={text}"])["each client"]
    except ConfigurationError as error:
        raise UsageProblem(
            f"--rate {text!r}: expected a number above 0 for a second or a minute: 20/s, 300/min"
        ) from error


@dataclass(frozen=True)
class _Place:
    """Where it listens, and what it takes there."""

    host: str
    port: int
    origins: Sequence[str]
    limits: Limits
    grace: float


def _require_protected(host: str, *, is_open: bool) -> None:
    if is_open and host not in LOOPBACK:
        raise UsageProblem(
            f"--host {host}: everybody who reaches it could run these agents, and decide for "
            "others. Expected "
            "--tokens, --identify or --oidc-issuer with it, --open where that is meant, or --host "
            f"{LOOPBACK[0]}"
        )


class _OpenIdOptions:
    """The options about OpenID Connect."""

    def __init__(
        self,
        issuer: str | None,
        audience: str | None,
        keys: str | None,
        name: str,
        tenant: str,
        roles: str,
    ) -> None:
        self._issuer, self._audience, self._keys = issuer, audience, keys
        self._claims: JsonObject = {
            "name_claim": name,
            "tenant_claim": tenant,
            "roles_claim": roles,
        }

    def settings(self) -> OpenIdSettings | None:
        """Return the settings; None without an issuer. Raises `UsageProblem` for an issuer without
        an audience.
        """
        if not self._issuer:
            return None
        if not self._audience:
            raise UsageProblem(
                "--oidc-issuer needs --oidc-audience: without it, tokens for other services would "
                "be taken"
            )
        return OpenIdSettings(self._issuer, self._audience, self._keys or "", **self._claims)


def _authenticators(
    tokens: Path | None, identify: str | None, openid: OpenIdSettings | None
) -> list[Authenticator]:
    known: list[Authenticator] = [TokenFile(tokens)] if tokens else []
    if openid:
        known.append(OpenId(openid))
    if identify:
        found = list(load_named("--identify", [identify]).values())
        if len(found) != 1 or not callable(found[0]):
            raise UsageProblem(
                f"--identify {identify!r}: expected module:function or file.py:function"
            )
        known.append(Function(found[0]))
    return known


async def _serve(
    offers: dict[str, OfferedAgent],
    code: UserCode,
    authenticators: Sequence[Authenticator],
    task_queue: str,
    place: _Place,
    chosen: JsonObject,
    *,
    mock: bool,
    as_json: bool,
    end: Callable[[], Awaitable[object]],
) -> None:
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
            inside = worker_inside(
                server, task_queue=task_queue, code=code, mock=mock, limits=limits
            )
            await stack.enter_async_context(inside)
        hosts = (*LOOPBACK, "[::1]") if place.host in LOOPBACK else ("*",)
        app = gateway_app(gateway, hosts=hosts, origins=place.origins, limits=place.limits)
        url = await stack.enter_async_context(
            serve_app(app, place.host, place.port, what="The gateway")
        )
        stack.push_async_callback(gateway.ending.end, place.grace)
        _say_where(
            url,
            server,
            offers,
            is_open=not authenticators,
            has_worker=has_worker,
            task_queue=task_queue,
        )
        if as_json:
            answer(
                {"url": url, "agents": list(offers), "taskQueue": task_queue, "worker": has_worker}
            )
        await end()


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
    say(
        f"on {server.place}, task queue {task_queue!r}, "
        f"{'with a worker' if has_worker else 'workers elsewhere'}"
    )
    say(f'OpenAI:  client = OpenAI(base_url="{url}/v1", api_key="{key}")')
    say(f'         client.chat.completions.create(model="{first}", messages=[…])')
    if find_spec("mcp"):
        header = "" if is_open else ' --header "Authorization: Bearer TOKEN"'
        say(f"MCP:     claude mcp add --transport http perdure {url}/mcp/{header}")
    if find_spec("a2a"):
        say(f"A2A:     {url}/a2a/{first}/.well-known/agent-card.json")
    say(f'AI SDK:  new DefaultChatTransport({{ api: "{url}/ai/{first}" }})')
    if find_spec("ag_ui"):
        say(f'AG-UI:   new HttpAgent({{ url: "{url}/ag-ui/{first}" }})')
    say(f"perdure: {url}/perdure/openapi.json")
