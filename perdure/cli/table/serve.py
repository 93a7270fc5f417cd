"""The commands that serve, and those that look after a server."""

from __future__ import annotations

from .options import CODE, JSON, LOG, Argument, Command, Option, Parameters, shared

_LIMIT = Option("The maximum number of open runs to examine.", "N", "--limit -n", int, 500, 1)
_QUEUE = Option("Only runs on this queue; default: all.", "NAME")
_LIMITS_OF_AGENTS: Parameters = {
    "allow_commands": Option(
        "Commands that agents may start, for MCP servers; * for all.", "NAMES", many=True
    ),
    "allow_env": Option(
        "Variables that agents may name by ${env:NAME}; * for all.", "NAMES", many=True
    ),
    "allow_hosts": Option(
        "The only hosts that agents may call, with secrets too.", "HOSTS", many=True
    ),
    "allow_kinds": Option(
        "The only kinds of tools, besides functions, for agents.", "NAMES", many=True
    ),
}
SIZES: Parameters = {
    f"max_{what}": Option(help, "N", type=int, least=1)
    for what, help in {
        "concurrent_workflow_tasks": "Decisions of runs that are made at a time; 100 without it.",
        "concurrent_activities": (
            "Model calls and tools that are executed at a time; 100 without it."
        ),
        "concurrent_local_activities": (
            "Tools declared local, and guardrails, at a time; 100 without it."
        ),
        "cached_workflows": "Runs that are kept in memory while they wait; 500 without it.",
        "concurrent_workflow_task_polls": (
            "Requests for decisions that are open at a time; 5 without it."
        ),
        "concurrent_activity_task_polls": (
            "Requests for calls and tools that are open at a time; 5 without it."
        ),
    }.items()
}
"""Arguments of Temporal's `Worker`."""
_OPEN_ID_CONNECT: Parameters = {
    "oidc_issuer": Option("Take JSON Web Tokens of this issuer (OpenID Connect).", "URL"),
    "oidc_audience": Option("For whom such tokens must be.", "NAME"),
    "oidc_keys": Option("The issuer's keys; default: those it names.", "URL|FILE", default=""),
    "oidc_client": Option(
        "The id of this gateway's page at the issuer: people sign in there.", "ID", default=""
    ),
    "oidc_scope": Option("The scopes that the page asks for.", "SCOPES", default="openid"),
    "oidc_name_claim": Option("The claim with the name.", "CLAIM", default="sub"),
    "oidc_tenant_claim": Option(
        "The claim with the tenant; default: there are no tenants.", "CLAIM", default=""
    ),
    "oidc_roles_claim": Option(
        "The claim with the roles, such as realm_access.roles.", "CLAIM", default=""
    ),
}

SERVE = {
    "dev": Command(
        "services:dev",
        "Run the server, its UI and a reloading worker until Ctrl-C.",
        {
            **CODE,
            **shared("task_queue", "prompt_root", "mock", "watch"),
            "serve": Option(
                "Serve this agent over HTTP too: perdure docs gateway.",
                "AGENT.prompty",
                type="path",
                many=True,
            ),
            "serve_port": Option(
                "The port of that gateway; 0 is any free one.", "PORT", type=int, default=8400
            ),
            **shared("port", "ui_port", "metrics_address"),
            **LOG,
            **JSON,
        },
        "The server is the embedded one. The worker restarts when a file in a watched folder "
        "changes, and when it dies. With --serve there is a gateway, too, which restarts like it.",
    ),
    "worker": Command(
        "worker:worker",
        "Run a worker until Ctrl-C or SIGTERM.",
        {
            **CODE,
            **shared("task_queue", "prompt_root"),
            "rate": Option(
                "Model calls that all workers of the queue make together: openai=50/s, "
                "openai/gpt-4o=300/min.",
                "NAME=N/s",
                many=True,
            ),
            **shared("mock"),
            "on_failure": Option(
                "The default `on_failure` of runs that cannot go on: perdure docs holding.",
                type=("fail", "hold"),
            ),
            **_LIMITS_OF_AGENTS,
            "deployment": Option(
                "The deployment of this worker; its runs stay in their version: perdure docs "
                "deploys.",
                "NAME",
                variable="TEMPORAL_DEPLOYMENT_NAME",
            ),
            "build_id": Option(
                "The version of this worker in the deployment.",
                "ID",
                variable="TEMPORAL_WORKER_BUILD_ID",
            ),
            **SIZES,
            "reload": Option("Restart when files change."),
            **shared("watch"),
            "grace": Option(
                "Time for running tools to finish.", "SECONDS", type=float, default=30.0, least=0
            ),
            "health_address": Option(
                "Serve /health/live and /health/ready there; on 127.0.0.1 by default.",
                "[HOST:]PORT",
            ),
            **shared("metrics_address"),
            **LOG,
            **JSON,
            **shared("ends_with_stdin"),
        },
        "It polls the task queue and executes its runs. When it ends, running tools get --grace "
        "seconds to finish. The --allow options (or PERDURE_ALLOW_COMMANDS, …_ENV, …_HOSTS, "
        "…_KINDS) limit agents: perdure docs worker-limits.",
    ),
    "serve": Command(
        "serve:serve",
        "Serve agents over HTTP until Ctrl-C, in the protocols of OpenAI, MCP, A2A, AG-UI, AI SDK, "
        "and its own.",
        {
            "agents": Argument(
                "The agents that are offered.", "AGENT.prompty...", many=True, type="path"
            ),
            **CODE,
            **shared("task_queue", "mock"),
            "host": Option("The address to listen at.", "ADDRESS", default="127.0.0.1"),
            "port": Option("The port; 0 is any free one.", "PORT", type=int, default=8400),
            "tokens": Option(
                "Bearer tokens and their owners: perdure docs gateway.", "FILE", type="path"
            ),
            "identify": Option(
                "Given the headers, returns name, tenant and roles, or None.", "MODULE:FUNCTION"
            ),
            **_OPEN_ID_CONNECT,
            "open": Option("Serve without authentication, at an address that others reach."),
            "allow_origin": Option(
                "Pages of this origin may ask, from a browser.", "URL", many=True
            ),
            "max_request_bytes": Option(
                "The size of a request; by default perdure's.", "BYTES", type=int, least=1024
            ),
            "max_open": Option(
                "Requests and streams of this process at a time.", "N", type=int, least=1
            ),
            "max_open_each": Option("The same of each client.", "N", type=int, least=1),
            "rate": Option(
                "Requests of each client at this process: 20/s, 300/min. Default: no limit.", "N/s"
            ),
            "answer_tasks": Option(
                "Call the model for titles, tags and the like of chat front ends."
            ),
            "cancel_tasks": Option(
                "Let tasks/cancel of an MCP client cancel a run without a reason."
            ),
            "stream_seconds": Option(
                "How long resumable streams last.", "SECONDS", type=float, least=1
            ),
            "stream_after": Option(
                "Hold the first N characters of a text back: it may precede tool calls.",
                "N",
                type=int,
                default=0,
                least=0,
            ),
            "grace": Option(
                "Time for open requests and streams to finish.",
                "SECONDS",
                type=float,
                default=5.0,
                least=0,
            ),
            **shared("metrics_address"),
            "webhook": Option(
                "Webhooks: notify a URL when a run waits, is held or ends (perdure docs webhooks).",
                "URL",
                many=True,
            ),
            **LOG,
            **JSON,
            **shared("ends_with_stdin"),
        },
        "Where no Temporal server is configured, the embedded one is started, and a worker with "
        "it. Elsewhere a worker is started where --tools, --guardrails or --compactor name its "
        "code.",
    ),
    "server": Command(
        "services:server",
        "Run the embedded server and its UI until Ctrl-C.",
        {**shared("port", "ui_port"), **JSON},
        "Its runs are kept in the data folder. It ends with the last perdure command that uses it.",
    ),
    "setup": Command(
        "services:setup",
        "Register perdure's search attributes in the server's namespace.",
        JSON,
        "Needed once for each namespace, with the rights of an administrator; the embedded server "
        "has them. Exit code 1 when one exists with another type.",
        reads_payloads=False,
    ),
    "doctor": Command(
        "doctor.doctor:doctor",
        "Examine the server, its workers and its open runs; print findings and cures.",
        {
            "task_queue": Option(
                "Queues to look at besides those of open runs.", "NAME", many=True
            ),
            "limit": _LIMIT,
            "probe": Option(
                "Measure the server's settings; not on Temporal Cloud.",
                names="--probe/--no-probe",
                default=True,
            ),
            **JSON,
        },
        "Exit code 1 where something keeps runs from going on, or will; warnings leave it at 0.",
    ),
    "check": Command(
        "check:check",
        "List open runs and sessions that would break with other tools.",
        {
            **shared("tools", "guardrails", "compactor"),
            "task_queue": _QUEUE,
            "limit": _LIMIT._replace(default=10_000),
            **JSON,
        },
        "Each run's needs are compared with the options for the new workers: tools, the recorded "
        "signatures of their functions, kinds of tools, guardrails and compactors. Exit code 1 if "
        "a run would break. Functions that do not declare whether a call may be repeated are "
        "listed too.",
    ),
    "sweep": Command(
        "sweep:sweep",
        "Delete unreferenced values from the storage.",
        {
            "older_than": Option(
                "The minimum age of a value to be deleted; at least 1h.", "AGE", default="1d"
            ),
            "shared": Option(
                "Delete values outside the runs' folders, too: only if nothing else uses them."
            ),
            "dry_run": Option("Print the values to be deleted, and delete nothing."),
            "yes": Option("Remove without being asked.", names="--yes -y"),
            **JSON,
        },
        "Workers may go on meanwhile. The storage is that of PERDURE_STORAGE, as far as this "
        "namespace uses it.",
    ),
    "codec-server": Command(
        "encryption:codec_server",
        "Run the codec server, which decodes payloads for the Temporal UI and CLI.",
        {
            "host": Option("The address to listen at.", "ADDRESS", default="127.0.0.1"),
            "port": Option("The port; 0 is any free one.", "PORT", type=int, default=8234),
            "ui_origin": Option(
                "Where a browser has the Temporal UI; default: the embedded server's.",
                "URL",
                many=True,
            ),
            **LOG,
        },
        "It decrypts with the keys of PERDURE_ENCRYPTION_KEY, unpacks compressed values, and "
        "fetches the values in PERDURE_STORAGE. Whoever may ask it may read: PERDURE_CODEC_TOKEN "
        "is a token that every request must bring. Without it the server listens on this machine "
        "only.",
    ),
    "encryption-key": Command(
        "encryption:encryption_key",
        "Print a new key for PERDURE_ENCRYPTION_KEY, or for PERDURE_VOUCH_KEY.",
        {
            "id": Argument(
                "The key's id, which everybody may see; default: the date.", "[KEYID]", False
            )
        },
        "Clients and workers need the same encryption keys. To rotate, put the new key before the "
        "old ones, with a comma: the first encrypts, all decrypt. Gateways vouch for people with "
        "other keys, a secret of gateways and workers.",
        reads_payloads=False,
    ),
}
