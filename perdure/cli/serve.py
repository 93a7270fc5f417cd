"""`perdure serve`: serves agents over HTTP, in the protocols of existing programs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from ..client.connection import register_search_attributes
from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..prompty.worker_limits import OPEN, WorkerLimits
from ..providers.rates import parsed_rates
from ..worker import tune_process
from .agent_file import require_file
from .command import execute
from .console import answer, say
from .given import Given
from .problems import UsageProblem
from .run_options import run_options
from .server_connection import ServerConnection, connect_to_server
from .user_code import UserCode, load_function, load_user_code, say_mocks, sources_of
from .worker import endpoint, until_end
from .worker_inside import worker_inside

try:
    from ..gateway.app import gateway_app
    from ..gateway.gateway import Gateway, OfferedAgent, offers_of
    from ..gateway.identity import Authenticator, Function, OpenId, OpenIdSettings, TokenFile
    from ..gateway.limits import USUAL_LIMITS, Limits
    from ..gateway.push import push_from_environment
    from ..payloads.codec_server.app import serve as serve_app
except ImportError as error:
    raise ConfigurationError(
        f"the gateway needs packages that are not installed ({error}): pip install 'perdure[serve]'"
    ) from error

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(given: Given) -> None:
    """Serve agents. Raises `UsageProblem`, such as for an address that others reach."""
    code = load_user_code(sources_of(given))
    for path in given.agents:
        require_file(path)
    offers = offers_of(given.agents)
    known = _authenticators(given)
    if not (known or given.open or given.host in LOOPBACK):
        raise UsageProblem(
            f"--host {given.host}: everybody who reaches it could run these agents and decide for "
            "others. Expected --tokens, --identify or --oidc-issuer with it, --open if you mean "
            f"that, or --host {LOOPBACK[0]}"
        )
    limits = Limits(
        given.max_request_bytes or USUAL_LIMITS.max_bytes,
        given.max_open or USUAL_LIMITS.max_open,
        given.max_open_each or USUAL_LIMITS.max_open_each,
        _rate(given.rate),
    )
    metrics, webhooks = endpoint(given.metrics_address), list(given.webhook)
    settings = {
        "hooks": _hooks_of(code),
        "cancels_tasks": given.cancel_tasks,
        "stream_after": given.stream_after,
        "webhooks": run_options({"webhooks": webhooks}).webhooks,
    }
    say_mocks(honoured=given.mock)
    work = _serve(given, offers, code, known, limits, settings)
    execute(work, is_service=True, metrics=metrics, grace=given.grace)


def _hooks_of(code: UserCode) -> JsonObject:
    """Return the options of runs that name the code, if it is the only one of its kind: of several,
    agents' files choose.

    Text that is to be checked is not streamed before it is.
    """
    found: JsonObject = {"guardrails": code.guardrails, "compactor": code.compactors}
    hooks: JsonObject = {
        field: next(iter(named)) for field, named in found.items() if len(named) == 1
    }
    checks_output = any(each.output for each in code.guardrails.values())
    return {**hooks, "stream": False} if checks_output else hooks


def _rate(text: str | None) -> float | None:
    """Return requests per second. Raises `UsageProblem`."""
    try:
        return None if text is None else parsed_rates([f"each client={text}"])["each client"]
    except ConfigurationError as error:
        raise UsageProblem(
            f"--rate {text!r}: expected a number above 0 for a second or a minute: 20/s, 300/min"
        ) from error


def _authenticators(given: Given) -> list[Authenticator]:
    """Return them. Raises `UsageProblem` for an issuer without an audience."""
    known: list[Authenticator] = [TokenFile(given.tokens)] if given.tokens else []
    if given.oidc_issuer:
        if not given.oidc_audience:
            raise UsageProblem(
                "--oidc-issuer needs --oidc-audience: without it, tokens for other services would "
                "be taken"
            )
        claims = {
            f"{name}_claim": getattr(given, f"oidc_{name}_claim")
            for name in ("name", "tenant", "roles")
        }
        known.append(
            OpenId(
                OpenIdSettings(
                    given.oidc_issuer,
                    given.oidc_audience,
                    given.oidc_keys,
                    client=given.oidc_client,
                    scope=given.oidc_scope,
                    **claims,
                )
            )
        )
    if given.identify:
        known.append(Function(load_function("--identify", given.identify)))
    return known


async def _serve(
    given: Given,
    offers: dict[str, OfferedAgent],
    code: UserCode,
    authenticators: list[Authenticator],
    limits: Limits,
    settings: JsonObject,
) -> None:
    queue, host = given.task_queue, given.host
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(connect_to_server())
        await register_search_attributes(server.client)
        gateway = Gateway(
            server.client,
            offers,
            queue,
            authenticators,
            examine=partial(examine, server, queue),
            ui_url=server.ui_url,
            push=push_from_environment(),
            **settings,
        )
        if authenticators:
            await gateway.require_tenants()
        has_worker = server.embedded is not None or given.mock or bool(code)
        if has_worker:
            tune_process()
            allowed = OPEN if server.embedded is not None else WorkerLimits.from_environment()
            inside = worker_inside(
                server, task_queue=queue, code=code, mock=given.mock, limits=allowed
            )
            await stack.enter_async_context(inside)
        hosts = (*LOOPBACK, "[::1]") if host in LOOPBACK else ("*",)
        app = gateway_app(gateway, hosts=hosts, origins=given.allow_origin, limits=limits)
        url = await stack.enter_async_context(serve_app(app, host, given.port, what="The gateway"))
        stack.push_async_callback(gateway.ending.end, given.grace)
        worker = "with a worker" if has_worker else "workers elsewhere"
        about = f"on {server.place}, task queue {queue!r}, {worker}"
        _say_where(url, about, list(offers), is_open=not authenticators)
        if given.as_json:
            place = {"url": url, "taskQueue": queue}
            answer({**place, "agents": list(offers), "worker": has_worker})
        await until_end(given)


async def examine(server: ServerConnection, queue: str) -> JsonObject:
    """Return the findings of `perdure doctor`, without measurements of the server."""
    from .doctor.doctor import examined  # imports as much as a worker

    report, findings = await examined(server, [queue], probe=False)
    return {**report, "findings": [each.as_json() for each in findings]}


def _say_where(url: str, about: str, agents: list[str], *, is_open: bool) -> None:
    """Report the address, and where clients find theirs."""
    key = "any key" if is_open else "a token of yours"
    say(f"Gateway: {url}   agents: {', '.join(agents)}", "strong")
    say(f"Page:    {url}/")
    say(about)
    say(f"OpenAI:  base URL {url}/v1, {key}, model {agents[0]}")
    say(f"Others:  {url}/perdure/openapi.json, and perdure docs gateway (MCP, A2A, AI SDK, AG-UI)")
