"""The first checker: histories, the model's log, the diary of the tools, promises to callers.

It knows Temporal's events and the scripts of the runs, and nothing of perdure's code.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import Client

from .histories import end_of, events, executions, result_of
from .shapes import ONCE, text_of

Entry = dict[str, Any]
REPLY_SECONDS = 2.0
"""Within these, the model replies."""


def read(folder: Path, name: str) -> list[Entry]:
    file = folder / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@dataclass
class Checked:
    """What was looked at, and what was found to be wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    """Seconds from the moment at which a call was interrupted to the next one of its run."""

    def require(self, holds: bool, what: str, complaint: str) -> None:
        self.counts[what] += 1
        if not holds:
            self.wrong.append(f"{what}: {complaint}")


async def check(client: Client, folder: Path) -> Checked:
    checked = Checked()
    load = read(folder, "load")
    for entry in load:
        if entry["event"] == "gave_up":
            checked.wrong.append(f"the load gave up {entry['run']}: {entry['why']}")
    ends = await _histories(client, checked)
    _ends(load, ends, checked)
    _effects(read(folder, "diary"), checked)
    _conversations(read(folder, "model"), load, checked)
    _steering(read(folder, "model"), load, ends, checked)
    _hooks(read(folder, "hooks"), load, checked)
    _decisions(read(folder, "diary"), load, checked)
    checked.recoveries = _recoveries(folder)
    return checked


async def _histories(client: Client, checked: Checked) -> dict[str, Entry]:
    """Workflow id → how its last execution ended and with what; every event is looked at."""
    ends: dict[str, Entry] = {}
    async for execution in executions(client):
        found = await events(client, execution)
        checked.counts["executions"] += 1
        checked.counts["events"] += len(found)
        checked.counts["bytes"] += sum(event.ByteSize() for event in found)
        numbers = [event.event_id for event in found]
        id = execution.workflow_id
        checked.require(
            numbers == list(range(1, len(found) + 1)), "a history has no gap", f"{id}: {numbers}"
        )
        end = end_of(found)
        checked.require(bool(end) and end != "STARTED", "an execution is closed", f"{id} is open")
        if end != "CONTINUED_AS_NEW":
            ends[id] = {"end": end, "result": result_of(found) if end == "COMPLETED" else {}}
        failures = [
            event.workflow_task_failed_event_attributes.failure.message
            for event in found
            if event.HasField("workflow_task_failed_event_attributes")
        ]
        # A worker that had too little of a history, or is killed, is not a fault of the code.
        bad = [text for text in failures if "ondeterminis" in text or "[TMPRL1100]" in text]
        checked.require(not bad, "no task fails for another history", f"{id}: {bad}")
        checked.counts["workflow tasks failed"] += len(failures)
    return ends


def _ends(load: list[Entry], ends: dict[str, Entry], checked: Checked) -> None:
    """What was accepted has ended as its script does, once."""
    for entry in load:
        run = entry["run"]
        if entry["event"] == "started":
            checked.require(run in ends, "an accepted run is recorded", run)
        if entry["event"] == "ended":
            wanted = "cancelled" if entry["shape"] == "cancelled" else "done"
            seen, why = entry["ends"], f"{run}: {entry}"
            # A run may end by itself before it is cancelled.
            right = seen == [wanted] or (wanted == "cancelled" and seen == ["done"])
            checked.require(right, "a reader sees one end, the right one", why)
            if seen == ["done"]:
                origin = run.removesuffix("-fork")
                checked.require(entry["output"] == f"done {origin}", "the answer is right", why)
        if entry["event"] == "turn_ended":
            why = f"{run}: {entry}"
            checked.require(entry["output"] == f"done {entry['text']}", "the answer is right", why)
        if entry["event"] == "answered_whole":
            why = f"{run}: {entry}"
            said = entry["output"].split("\n")[-1].strip()
            checked.require(said == f"done {run}", "a gateway's client has the answer", why)
            checked.require(entry["ends"] == 1, "a gateway's stream ends once", why)
            checked.require(entry["id"] in ends, "a gateway's run is recorded", why)


def _effects(diary: list[Entry], checked: Checked) -> None:
    """No effect that may come once came twice; each other call has one key, and took place."""
    started, keys = Counter[str](), defaultdict[str, set[str]](set)
    for entry in diary:
        if entry["event"] != "start":
            continue
        # A fork repeats what its origin said, not what it did: its calls are its own.
        call = f"{entry.get('run', '')} {entry['tool']} {entry['text']}"
        started[call] += 1
        if key := entry.get("key"):
            keys[call].add(key)
        checked.counts[f"executions of {entry['tool']}"] += 1
    for call, count in started.items():
        tool = call.rsplit(" ", 2)[-2]
        if tool in ONCE:
            checked.require(count == 1, "an effect comes once", f"{call}: {count} times")
        checked.require(len(keys[call]) <= 1, "a call keeps its key", f"{call}: {keys[call]}")
        checked.counts["repeated calls"] += count - 1


def _conversations(model: list[Entry], load: list[Entry], checked: Checked) -> None:
    """Each request is a valid conversation that goes on where the one before ended."""
    before: dict[tuple[str, int], list[Entry]] = {}
    for entry in model:
        if entry["event"] != "asked":
            continue
        messages, run = entry["messages"], entry["run"]
        open_calls: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                id = message["tool_call_id"]
                checked.require(id in open_calls, "a result answers a call", f"{run}: {id}")
                if id in open_calls:
                    open_calls.remove(id)
                continue
            if open_calls:
                checked.require(False, "each call has one result", f"{run}: {open_calls}")
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        checked.require(not open_calls, "each call has one result", f"{run}: {open_calls}")
        key = (f"{run} {messages[0]}", entry["step"])
        earlier = before.get((key[0], entry["step"] - 1))
        if earlier is not None:
            same = [text_of(each) for each in messages[: len(earlier)]]
            checked.require(
                same == [text_of(each) for each in earlier],
                "a conversation goes on where it was",
                f"{run} step {entry['step']}",
            )
        before[key] = messages
    asked = Counter(f"{e['run']} {e['step']}" for e in model if e["event"] == "asked")
    answered = Counter(f"{e['run']} {e['step']}" for e in model if e["event"] == "answered")
    checked.counts["model calls"] = sum(asked.values())
    checked.counts["steps asked again"] = sum(count - 1 for count in asked.values())
    checked.counts["replies that were lost"] = sum(count - 1 for count in answered.values())


def _steering(
    model: list[Entry], load: list[Entry], ends: dict[str, Entry], checked: Checked
) -> None:
    """What was accepted was read once, in its order, or is given back unread."""
    last: dict[str, list[str]] = {}
    for entry in model:
        if entry["event"] == "asked" and entry["shape"] == "steered":
            texts = [text_of(each) for each in entry["messages"] if each["role"] == "user"]
            if len(texts) >= len(last.get(entry["run"], ())):
                last[entry["run"]] = texts
    sent: dict[str, list[str]] = defaultdict(list)
    for entry in load:
        if entry["event"] == "steered":
            sent[entry["run"]].append(entry["text"])
    for run, texts in sent.items():
        unread = [str(each) for each in ends.get(run, {}).get("result", {}).get("unread", ())]
        given = "\n".join([*last.get(run, ()), *unread, json.dumps(ends.get(run, {}))])
        read_by_model = [text for text in last.get(run, ()) if text in texts]
        order = [text for text in texts if text in read_by_model]
        checked.require(read_by_model == order, "steering is read once, in order", f"{run}")
        missing = [text for text in texts if text not in given]
        checked.require(not missing, "accepted steering is not lost", f"{run}: {missing}")


def _hooks(hooks: list[Entry], load: list[Entry], checked: Checked) -> None:
    """Whoever is to be told of an end is told, and by one id."""
    ids: dict[str, set[str]] = defaultdict(set)
    for entry in hooks:
        ids[f"{entry['run']} {entry['type']}"].add(entry["id"])
    for entry in load:
        if entry["event"] == "ended" and entry["shape"] == "webhook":
            told = ids.get(f"{entry['run']} run.done", set())
            checked.require(len(told) == 1, "a webhook is told of the end", f"{entry['run']}")


def _decisions(diary: list[Entry], load: list[Entry], checked: Checked) -> None:
    """What was approved twice happened at most once; what was denied did not happen."""
    acted = Counter(e["run"] for e in diary if e["tool"] == "approved" and e["event"] == "start")
    for entry in load:
        if entry["event"] == "approved":
            why = f"{entry['run']}: {acted[entry['run']]} times"
            checked.require(acted[entry["run"]] <= 1, "a decision counts once", why)
            checked.counts["approved and done"] += acted[entry["run"]]
        if entry["event"] == "denied":
            checked.require(not acted[entry["run"]], "what is denied is not done", entry["run"])


def _recoveries(folder: Path) -> list[float]:
    """For each run with a call under way in a worker that was killed: the seconds until it did
    something again.
    """
    diary = [entry for entry in read(folder, "diary") if entry.get("run")]
    kills = [
        (entry["at"], entry["pid"])
        for entry in read(folder, "faults")
        if entry["fault"] == "kill_worker"
    ]
    model = [entry for entry in read(folder, "model") if entry["event"] == "asked"]
    failed = {entry["number"] for entry in read(folder, "failures")}
    answered = {e["number"] for e in read(folder, "model") if e["event"] == "answered"}
    # A model call that was under way elsewhere was answered later.
    lost = [entry for entry in model if entry["number"] not in failed | answered]
    moments: dict[str, list[float]] = defaultdict(list)
    for entry in [*diary, *model]:
        moments[entry["run"]].append(entry["at"])
    found = []
    for at, pid in kills:
        begun: dict[tuple[str, str], Entry] = {}
        for entry in diary:
            if entry["pid"] == pid and entry["at"] <= at:
                key = (entry["run"], entry["text"])
                if entry["event"] == "start":
                    begun[key] = entry
                else:
                    begun.pop(key, None)
        interrupted = {run for run, _ in begun}
        interrupted |= {e["run"] for e in lost if e["at"] <= at <= e["at"] + REPLY_SECONDS}
        for run in interrupted:
            later = [moment for moment in moments[run] if moment > at]
            if later:
                found.append(min(later) - at)
    return sorted(found)
