"""The commands that run agents and watch runs."""

from __future__ import annotations

from .options import (
    CODE,
    FILTERS,
    INPUTS,
    JSON,
    LOG,
    OPEN_ID,
    RUN_ID,
    Argument,
    Command,
    Option,
    Parameters,
    shared,
)

_DETACH = Option(
    "Start the run, print its id, and exit; it is held where it can't go on.", names="--detach -d"
)
_QUEUE_OF_RUNS: Parameters = {"task_queue": Option("The task queue of the runs.", "NAME")}

RUN_AGENTS = {
    "run": Command(
        "run:run",
        "Run an agent.",
        {
            **shared("agent_file"),
            **INPUTS,
            **shared("model", "provider", "endpoint"),
            **CODE,
            "detach": _DETACH,
            "new_id": Option("The run's id; default: a new, readable one.", "ID", "--id"),
            **_QUEUE_OF_RUNS,
            **shared("tenant", "tenant_weight", "priority", "scripted", "mock"),
            **JSON,
            **shared("quiet", "yes"),
            **LOG,
        },
        "The answer goes to stdout, the progress of the run to stderr.\n\nWithout TEMPORAL_ADDRESS "
        "an embedded Temporal server is used. A worker runs inside this command when --tools is "
        "given, or when the embedded server has none; otherwise the workers of the task queue "
        "execute the run.",
        run_options=True,
    ),
    "chat": Command(
        "chat.chat:chat",
        "Talk with an agent.",
        {
            "agent_file": Argument(
                "The agent's file; an open session has one already.",
                "[AGENT.prompty]",
                required=False,
                type="path",
            ),
            **shared("session"),
            "message": Option(
                "Send this, print the answer, and end; - is all of stdin.",
                "TEXT",
                "--message -m",
                many=True,
            ),
            "close": Option("Close the session, after sending the messages of -m."),
            **INPUTS,
            **CODE,
            **_QUEUE_OF_RUNS,
            "idle_timeout": Option(
                "A session without a turn for so long closes.", "SECONDS", type=float, least=1
            ),
            **shared("tenant", "priority", "scripted", "mock"),
            **JSON,
            **shared("quiet", "yes"),
            **LOG,
        },
        "Each turn is a durable run of a session, which stays when the terminal is closed: "
        "--session goes on with it, from another terminal too. The agent reads a message that you "
        "type while it works before its next model call.\n\nWithout a terminal, each line of stdin "
        "is a message, and the answers alone go to stdout.",
        run_options=True,
    ),
    "resume": Command(
        "resume:resume",
        "Start a worker for a run, and follow the run.",
        {**OPEN_ID, **CODE, **shared("yes"), **JSON, **shared("quiet"), **LOG},
        "The worker runs inside this command, with the tools that `perdure run` was given when it "
        "started the run. A run that another program started needs --tools. The command lists the "
        "code, commands and variables that the run uses, and asks first where they may not be "
        "yours.",
    ),
    "fork": Command(
        "fork:fork",
        "Start a new run from another run's conversation, as it was before an iteration.",
        {
            **RUN_ID,
            "at": Option(
                "The fork begins before this iteration, from 1; -1 is the last one, and so on; "
                "default: where a closed run ended, or before the current iteration of an open "
                "one.",
                "N",
                type=int,
            ),
            "steer": Option("The first message to the agent.", "TEXT"),
            **shared("model", "agent", "inputs", "inputs_json"),
            **CODE,
            **shared("scripted"),
            "detach": Option("Start the fork, print its id, and exit.", names="--detach -d"),
            "new_id": Option("The fork's id; default: a new, readable one.", "ID", "--id"),
            "task_queue": Option("The task queue; default: that of the run.", "NAME"),
            **shared("yes"),
            **JSON,
            **shared("quiet"),
            **LOG,
        },
        "The fork repeats nothing: it knows the run's work until then. The run may be open or "
        "closed, and stays as it is. Tools come from the same place as for `perdure resume`, or "
        "from --tools.",
        run_options=True,
    ),
    "rerun": Command(
        "rerun:rerun",
        "Replay a run against another model, and compare the two.",
        {
            "run": Argument(
                "A run that has ended, or the file that `perdure export` made of it.",
                "ID|FILE",
                ids="runs",
            ),
            **shared("model", "agent", "inputs", "inputs_json", "yes"),
            **JSON,
            **LOG,
        },
        "This command calls the model, and executes no tool: it matches the model's calls with the "
        "recorded ones by name and arguments, and returns their results. A call that matches none "
        "ends the comparison. Where the recorded agent would send a variable to a host that is not "
        "its provider's, you are asked first. The exit code is 0 when the rerun went the same way, "
        "1 when it did not.",
        run_options=True,
    ),
    "schedule": Command(
        "",
        "Start runs on a schedule: at times, or at intervals.",
        commands={
            "create": Command(
                "schedule:create",
                "Start runs of an agent at times.",
                {
                    "name": Argument("The schedule's name.", "NAME"),
                    **shared("agent_file"),
                    "cron": Option(
                        "When, such as '0 7 * * 1'; repeatable.",
                        "'M H D MONTH WEEKDAY'",
                        many=True,
                    ),
                    "every": Option("How often: 90s, 15m, 1h, 2d.", "TIME"),
                    "timezone": Option("Of --cron, such as Europe/Berlin.", "ZONE", default="UTC"),
                    "overlap": Option(
                        "If the run before is under way: skip this one, start it after, end that "
                        "one, or run both.",
                        type=("skip", "buffer", "buffer-all", "cancel", "terminate", "allow"),
                        default="skip",
                    ),
                    "paused": Option("Start nothing until `perdure schedule resume`."),
                    "replace": Option("Change the schedule of that name, if there is one."),
                    **INPUTS,
                    **shared("task_queue"),
                    "tenant": Option("The tenant of the runs.", "NAME"),
                    **JSON,
                },
                "The agent and its inputs are recorded now: after a change of the file, create it "
                "again with --replace. The runs have ids of the schedule's name and their time, "
                "and are executed by the workers of the task queue.",
                run_options=True,
            ),
            "list": Command("schedule:list_", "List the schedules of runs.", JSON),
            "show": Command(
                "schedule:show",
                "Show when a schedule starts runs, and which it has started.",
                {"name": Argument("The schedule's name.", "NAME"), **JSON},
            ),
            "pause": Command(
                "schedule:pause",
                "Start no more runs, until it is resumed.",
                {
                    "name": Argument("The schedule's name.", "NAME"),
                    "reason": Option("Why, for those who read it.", "TEXT", default=""),
                },
            ),
            **{
                verb: Command(
                    "schedule:change", help, {"name": Argument("The schedule's name.", "NAME")}
                )
                for verb, help in {
                    "resume": "Start runs again.",
                    "run": "Start a run now, besides the usual times.",
                    "delete": "Forget a schedule; runs that it has started go on.",
                }.items()
            },
        },
    ),
}
WATCH = {
    "watch": Command(
        "read:watch",
        "Show what a run does until it ends, and print its answer.",
        {**RUN_ID, "from_now": Option("Show only new events."), **JSON},
        "Any run, wherever its workers are; from its beginning, unless --from-now. On a terminal, "
        "you can answer waiting approvals and questions here, and steer, cancel or leave the "
        "run.\n\nAs JSON, its events, one per line, with those of the runs that it calls.",
    ),
    "show": Command(
        "show:show",
        "Show what a run did, a line for each iteration.",
        {**RUN_ID, **JSON},
        "A line has the model, its tokens and their cost, how long the model took, and each tool "
        "with its outcome, its attempts and the run that it has called. The run may be open.",
    ),
    "status": Command("status:status", "Print the status of a run.", {**RUN_ID, **JSON}),
    "result": Command(
        "read:result",
        "Wait for a run and print its answer; or print the result of one of its tool calls.",
        {
            **RUN_ID,
            **JSON,
            "follow": Option("Show the run's progress, on stderr.", names="--follow -f"),
            "call": Option("Print the whole result of this tool call instead.", "CALL"),
            "iteration": Option("The call's iteration, if several have that id.", "N", type=int),
        },
    ),
    "ls": Command(
        "ls:ls",
        "List runs; the latest start or end comes first.",
        {
            "limit": Option("At most this many.", "N", "--limit -n", int, 20, 1),
            "waiting": Option("Only runs that wait for a person, with their requests."),
            "sessions": Option("Sessions instead of runs."),
            "totals": Option("Totals instead of a list: tokens, cost, time."),
            **JSON,
            **FILTERS,
        },
        "The list lags by a second or so. Filters by agent, tenant, session, origin, cost and the "
        "status waiting or held need search attributes that `perdure setup` registers.",
    ),
    "events": Command(
        "events:events",
        "Print a run's events, one per line.",
        {
            **RUN_ID,
            "follow": Option("Go on until the run ends.", names="--follow -f"),
            "after": Option("Only events after this position or number.", "POSITION", default="0"),
            "children": Option("Those of the agents that it has called, too."),
            **JSON,
            "whole_messages": Option(
                "With --json: the whole conversation wherever it has changed."
            ),
        },
        "Runs that have ended keep their events. As JSON, an event lists the operations that "
        "changed the conversation.",
    ),
    "messages": Command(
        "read:messages",
        "Print the conversation of a run.",
        {**RUN_ID, **JSON},
        "Runs that have ended keep their conversation.",
    ),
    "export": Command(
        "export:export",
        "Print a run's whole record as JSON lines.",
        {
            **RUN_ID,
            "output": Option(
                "Write to a file; default: stdout.", "FILE", "--output -o", type="path"
            ),
            "children": Option(
                "Those of the agents that it has called, too.",
                names="--children/--no-children",
                default=True,
            ),
            "events": Option(
                "Include the live events.", names="--events/--no-events", default=True
            ),
        },
        "`perdure docs export` describes the lines. They have no secrets, but the whole "
        "conversation of the run.",
    ),
    "trace": Command(
        "trace:trace",
        "Print or write the OpenTelemetry trace of a run.",
        {
            **RUN_ID,
            "as_json": Option("Write OTLP/JSON, for collectors and viewers.", names="--json"),
            "html": Option("Write a page that needs nothing else.", "FILE", type="path"),
            "tracy": Option("Write a .tracy file, for Prompty's viewer.", "FILE|DIR/"),
            "content": Option(
                "With messages, arguments and results, without the secrets that are known."
            ),
            "children": Option(
                "With the runs that it has called.", names="--children/--no-children", default=True
            ),
        },
        "It is read from the history, so any run has one, whether its worker exported spans or "
        "not; the spans and their ids are the same. The trace of a run that has not ended says so.",
    ),
}
