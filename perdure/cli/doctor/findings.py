"""The table of everything that a doctor can find, with the cures."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ...json_types import JsonObject
from ...text import count_of

Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """One thing that is wrong."""

    id: str
    """For programs."""
    level: Level
    """An error keeps runs from going on, or will."""
    text: str
    do: str = ""
    """What to type, or what to change."""
    about: JsonObject = {}
    """The names and numbers of the text."""

    def as_json(self) -> JsonObject:
        """Return it for programs."""
        return self._asdict()


_START = "start a worker that has it: {start}"
_SETTING = "set {setting}: {value} in the server's dynamic configuration (perdure docs operating)"
_MAY_CALL = "no worker of the task queue {queue!r} has {what}, which {count} may call: {runs}"
CHECKS: dict[str, tuple[Level, str, str]] = {
    "no-namespace": (
        "error",
        "the namespace {namespace!r} does not exist",
        "temporal operator namespace create --namespace {namespace} --retention 720h",
    ),
    "short-retention": (
        "warning",
        "the namespace {namespace!r} keeps closed runs for {hours:g} h: after that, their results, "
        "conversations and traces are gone, and a caller that comes later finds nothing",
        "temporal operator namespace update --namespace {namespace} --retention 720h",
    ),
    "clock": (
        "warning",
        "{whose} is {seconds} s {way} the server's: ages, deadlines and time-outs are wrong",
        "set it: chronyc makestep, or timedatectl set-ntp true",
    ),
    "old-server": (
        "error",
        "the server's version is {version}, perdure needs {least}",
        "upgrade the server to {least} or newer, one minor version after the other",
    ),
    "search-attributes-unknown": (
        "warning",
        "the search attributes can't be listed with these rights",
        "",
    ),
    "search-attributes-missing": (
        "error",
        "the namespace {namespace!r} lacks the search attributes {names}: filters by them find no "
        "runs, and lists do not show which runs wait",
        "perdure setup",
    ),
    "search-attribute-type": (
        "error",
        "{name} exists in the namespace {namespace!r} as {type}, expected {expected}: runs leave "
        "it unset there",
        "If nothing else uses it, type: temporal operator search-attribute remove --namespace "
        "{namespace} --name {name} --yes, and then again: perdure setup",
    ),
    "different-storage": (
        "warning",
        "workers of the task queue {queue!r} differ in their storage: {each}",
        "set PERDURE_STORAGE to the same for all of them",
    ),
    "different-encryption-keys": (
        "warning",
        "workers of the task queue {queue!r} differ in their encryption keys: {each}",
        "give all of them the same PERDURE_ENCRYPTION_KEY",
    ),
    "different-vouch-keys": (
        "warning",
        "workers of the task queue {queue!r} differ in their vouch keys: {each}",
        "give all of them the gateways' PERDURE_VOUCH_KEY",
    ),
    "different-rates": (
        "warning",
        "workers of the task queue {queue!r} differ in their rates: {each}",
        "give all of them the same --rate",
    ),
    "open-breaker": (
        "warning",
        "the worker {worker} holds calls of {connection} back: they were refused ({kind})",
        "they go on once it takes one; else see perdure docs holding",
    ),
    "no-current-version": (
        "error",
        "no version is current for the task queue {queue!r}, and all its workers have one: new "
        "runs wait",
        "{command}",
    ),
    "no-worker": (
        "error",
        "the task queue {queue!r} has no worker for {count}: {runs}",
        "{start}",
    ),
    "version-without-worker": (
        "error",
        "the task queue {queue!r} has no worker of the version {version} for {count}: {runs}",
        "{start} {options}; or, in the current version: temporal workflow update-options --query "
        "\"TemporalWorkerDeploymentVersion='{version}' AND ExecutionStatus='Running'\" {upgrade} "
        '--reason "no workers" --yes',
    ),
    "silent-workers": (
        "error",
        "none of the workers of {count} on the task queue {queue!r} answers within {within:g} s, "
        "although one polled {polled:.0f} s before: they are dead or frozen ({workers}): {runs}",
        "look at their logs and start them again: {start}",
    ),
    "no-key": (
        "error",
        "no worker of the task queue {queue!r} has the key {key!r} of {count}: {runs}",
        "add {key}:… to PERDURE_ENCRYPTION_KEY of the workers",
    ),
    "no-vouch-key": (
        "error",
        "nobody can decide about calls of {count} on the task queue {queue!r}, approvers are "
        "restricted, and its workers have no key to verify them: {runs}",
        "give the workers and the gateways the same PERDURE_VOUCH_KEY (perdure docs approvals)",
    ),
    "no-tool": ("error", _MAY_CALL, _START),
    "changed-signature": (
        "error",
        f"{_MAY_CALL}. {{change}}",
        "start a worker whose function takes those arguments; before a deployment: perdure check",
    ),
    "no-provider-key": (
        "error",
        "no worker of the task queue {queue!r} has {what} for {count}: {runs}",
        "set it where the workers are started, and start them again; held runs then go on by: "
        "perdure go-on --status held",
    ),
    "held": (
        "warning",
        "held: {count}: {runs}{why}",
        "perdure status ID shows the reason; once it is fixed: perdure go-on --status held "
        "(perdure docs holding)",
    ),
    "failing-tasks": (
        "error",
        "{count} can't go on, each attempt fails: {why}: {runs}",
        "start workers of the version that has begun them, or one that mends it; the log of a "
        "worker has the traceback, and the history is: temporal workflow show --workflow-id "
        "{first}",
    ),
    "no-writes": (
        "error",
        "the server answers, but can't record anything: {error}",
        "look at its log and its database: is its disk full? (perdure docs operating)",
    ),
    "settings-unknown": (
        "warning",
        "not all of the server's settings can be measured: {error}",
        "",
    ),
    "query-buffer": (
        "warning",
        "the server refused {refused} of {asked} readers of a run at once: {without}",
        _SETTING,
    ),
    "visibility-quota": (
        "warning",
        "the server refused {refused} of {asked} counts of runs at once: {without}",
        _SETTING,
    ),
}
"""Id of a finding → its level, its text, and its cure."""


def finding(id: str, **about: Any) -> Finding:
    """Return the finding of that id, with its names and numbers."""
    level, text, cure = CHECKS[id]
    shown = {
        name: examples(each) if isinstance(each, list) else each for name, each in about.items()
    }
    shown["count"] = count_of(len(about.get("runs", ())), "open run")
    return Finding(id, level, text.format(**shown), cure.format(**shown), about)


def examples(ids: list[str], most: int = 3) -> str:
    """Return some of the ids, and how many more there are."""
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"{', '.join(ids[:most])}{more}"
