"""The commands that decide, steer, and help to write agents."""

from __future__ import annotations

from .options import (
    INPUTS,
    JSON,
    LOG,
    MANY,
    OPEN_ID,
    OPEN_IDS,
    YES_TO_ALL,
    Argument,
    Command,
    Option,
    shared,
)

DECIDE = {
    "approve": Command(
        "decide:approve",
        "Approve a waiting tool call.",
        {
            **OPEN_ID,
            **shared("call"),
            "arguments": Option("Arguments to use instead of the model's.", "JSON"),
            **shared("digest", "by"),
            **JSON,
        },
        "With --digest, which every command that perdure prints has, the approval counts for that "
        "call only, not for a later one of the same id. Without it, the command shows and approves "
        "the call that waits now.",
    ),
    "deny": Command(
        "decide:deny",
        "Deny a waiting tool call.",
        {
            **OPEN_ID,
            **shared("call"),
            "reason": Option("Why; the model reads it.", "TEXT", default="denied by a person"),
            **shared("digest", "by"),
            **JSON,
        },
        "The model receives the reason, and the run continues.",
    ),
    "answer": Command(
        "decide:answer",
        "Answer a question of a run's model.",
        {
            **OPEN_ID,
            "call": Argument("The id of the question, as status shows it.", "CALL_ID"),
            "text": Argument("The answer.", "TEXT"),
            **shared("digest", "by"),
            **JSON,
        },
        "`perdure deny` declines the question, with a reason.",
    ),
    "complete": Command(
        "decide:complete",
        "Complete a tool call that waits for another system.",
        {
            "token": Argument("The token that context.later() returned to the tool.", "TOKEN"),
            "result": Argument(
                "The result, as the model reads it; - reads it from stdin.", "[RESULT]", False
            ),
            "error": Option("The call failed, for this reason; the model reads it.", "TEXT"),
            **shared("by"),
            **JSON,
        },
        "The tool has passed the token on (perdure docs later). A call completes once: the same "
        "again changes nothing.",
    ),
    "steer": Command(
        "control:steer",
        "Send a message to a run.",
        {**OPEN_ID, "text": Argument("The message to the agent.", "TEXT"), **JSON},
        "The agent reads it before its next model call.",
    ),
    "cancel": Command(
        "control:cancel",
        "Cancel a run, or many.",
        {
            **OPEN_IDS,
            "reason": Option("Why; it is recorded with the run.", "TEXT", default=""),
            **YES_TO_ALL,
            **JSON,
            **MANY,
        },
        "A running tool gets time to finish; no further tool or model call starts.",
    ),
    "pause": Command(
        "pause:pause",
        "Pause runs before their next model or tool call.",
        {
            **OPEN_IDS,
            "reason": Option("Why; people read it with each run.", "TEXT", default=""),
            **shared("by"),
            "list": Option("List the pauses instead."),
            **JSON,
            **MANY,
        },
        "Running calls end, and are recorded; then the runs are held until `perdure go-on`, also "
        "when workers and the server start anew. With only --agent, --tenant, --task-queue or "
        "--session, or --all, runs that start later are paused, too.",
    ),
    "go-on": Command(
        "go_on:go_on",
        "Resume a held run, or many.",
        {
            **OPEN_IDS,
            "with_model": Option(
                "Call another model from now on: its id, or PROVIDER/ID for another provider.",
                "ID",
            ),
            **shared("by"),
            **JSON,
            **MANY,
        },
        "The run continues where it stopped: it repeats nothing, and retries the failed step. A "
        "run held at a limit needs a higher one. Held runs that it called resume too, and so do "
        "paused ones (`perdure pause`).",
        run_options="held",
    ),
    "delete": Command(
        "delete:delete",
        "Delete runs and sessions for good, with their child runs.",
        {
            "id": Argument("Runs or sessions.", "[ID]...", False, True, ids="runs"),
            "force": Option("Terminate open runs, then delete them, too."),
            "wait": Option(
                "Wait until the server has deleted histories: two minutes at most.",
                names="--wait/--no-wait",
                default=True,
            ),
            "yes": Option("Delete without being asked.", names="--yes -y"),
            **JSON,
            **MANY,
        },
        "With --tenant alone, the tenant's schedules, too. The same command completes a partial "
        "deletion.",
    ),
}
WRITE = {
    "connect": Command(
        "connect:connect",
        "Grant workers tokens for an MCP server, in a browser.",
        {
            "server": Argument(
                "The server's URL, or an agent's file with servers of kind oauth.", "SERVER"
            ),
            "tool": Option("Only this tool of the file.", "NAME"),
            "client_id": Option("A client that is registered already.", "ID"),
            "scope": Option(
                "The scopes to request; default: those that the server names.", "NAME", many=True
            ),
            "port": Option(
                "The port of 127.0.0.1 that the browser returns to.", "PORT", type=int, default=0
            ),
            "browser": Option(
                "Open a browser; the address is printed in any case.",
                names="--browser/--no-browser",
                default=True,
            ),
            "timeout": Option(
                "How long to wait for the browser.", "SECONDS", type=float, default=300.0, least=1
            ),
            **JSON,
            **LOG,
        },
        "perdure keeps the tokens in a file in PERDURE_HOME that only this user can read, and "
        "never in a run. The workers of this user on this machine use and renew them.",
        reads_payloads=False,
    ),
    "validate": Command(
        "validate:validate",
        "Check an agent's file without calling anything.",
        {
            **shared("agent_file"),
            "show_request": Option("Print the request to the model; it is not sent."),
            **INPUTS,
            **shared("model", "provider", "endpoint", "tools"),
            "strict": Option("Take warnings for errors."),
            **JSON,
        },
        "With --tools, the declared tools are compared with their functions too. Exit code 1 when "
        "there is an error; with --strict, a warning is one, too.",
        reads_payloads=False,
    ),
    "docs": Command(
        "docs:docs",
        "Print a page of the documentation.",
        {"page": Argument("Such as tools; default: a list.", "[PAGE]", required=False)},
        reads_payloads=False,
    ),
}
