"""What must hold in every schedule, whatever happened: sentences, and their checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .conversations import fault_in, fault_in_messages
from .outcome import MODEL, TOOL, RunOutcome, answers_in, outcomes, value_of
from .people import decoded
from .sessions import SENTENCES, judge_session

if TYPE_CHECKING:
    from .world import World

Check = Callable[[RunOutcome], Iterator[str]]
INVARIANTS: dict[str, str] = {
    "END": "Every run ends, unless it waits for a person who does not answer.",
    "TASKS": "No workflow task fails: no run stands still because of perdure's own code.",
    "REPLAY": "Every history replays to the commands that it records.",
    "REPLAY_STATE": "Cut after any workflow task, a replayed history leads to the state that the "
    "worker had then.",
    "HARNESS": "The simulation itself does not fail.",
    "DIGEST": "A worker executes a step with the conversation that the run had, or not at all.",
}
"""The sentence of each invariant, by its name."""
CHECKS: dict[str, Check] = {}


def invariant(name: str, sentence: str) -> Callable[[Check], Check]:
    """Register the check of an invariant; it yields what breaks the invariant."""

    def register(check: Check) -> Check:
        INVARIANTS[name], CHECKS[name] = sentence, check
        return check

    return register


def judge(world: World) -> None:
    """Check all invariants of a schedule that has ended, and note the violations."""
    if not world.is_over():
        world.fails("END", None, "the schedule stands still or takes for ever")
    for error in world.errors:
        if type(error).__name__ == "DigestMismatchError" and "inventory" not in str(error):
            world.fails("DIGEST", None, str(error))
    for request in world.requests:
        if fault := fault_in(request["messages"]):
            world.fails("VALID", None, fault)
    runs, session = outcomes(world)
    for run in runs:
        for name, check in CHECKS.items():
            for text in check(run):
                world.fails(name, run.links[-1], text)
    for text in _decisions(world):
        world.fails("DECISIONS", None, text)
    if session is not None:
        for name, text in judge_session(world, session):
            world.fails(name, session.links[-1], text)


@invariant(
    "ACCEPTED",
    "A message that was accepted is in the run's history, once, in the order of sending.",
)
def _accepted(run: RunOutcome) -> Iterator[str]:
    people = run.world.people
    if people is None or run.id != "run" or run.world.scene.is_session:
        return
    accepted = [text for text, _ in people.accepted]
    if run.steered != accepted:
        yield f"accepted {accepted}, recorded {run.steered}"


@invariant(
    "STEERING",
    "The agent reads each message once, in order; a run that succeeds has read and answered all.",
)
def _steering(run: RunOutcome) -> Iterator[str]:
    known = set(run.steered)
    read = [message.text for message in run.messages if message.text in known]
    if read != run.steered[: len(read)]:
        yield f"recorded {run.steered}, read {read}"
    if run.end != "completed" or _is_at_limit(run):
        return
    if len(read) < len(run.steered):
        yield f"the run is completed and has not read {run.steered[len(read) :]}"
    elif run.messages[-1].role != "assistant":
        yield f"the run is completed without an answer to {run.messages[-1].text!r}"


def _is_at_limit(run: RunOutcome) -> bool:
    """Return whether a limit kept the run from answering."""
    options, loop = run.last.state.options, run.last.state.loop
    is_full = options.max_tool_calls is not None and loop.tool_calls >= options.max_tool_calls
    return is_full or loop.iterations >= options.max_iterations


@invariant(
    "VALID",
    "Each request to a model is a conversation that its provider accepts; so is the conversation "
    "at the end.",
)
def _valid(run: RunOutcome) -> Iterator[str]:
    if fault := fault_in_messages(run.messages):
        yield f"at the end: {fault}"


@invariant("ONCE", "A step whose result is recorded is never executed again.")
def _once(run: RunOutcome) -> Iterator[str]:
    done: Counter[str] = Counter()
    for link, event in run.scheduled(TOOL):
        end = run.end_of(link, event)
        if end is None or end.kind != "activity_completed":
            continue
        call = value_of(event.body.schedule_activity.arguments)["request"]["call_id"]
        done[call] += 1
        for entry in run.world.diary:
            if entry.run == run.id and entry.call_id == call and entry.begun > end.time:
                yield f"{call} was executed again {entry.begun - end.time:.3f} s after its result"
    for call, count in done.items():
        if count > 1:
            yield f"{call} has {count} results"


@invariant(
    "NOT_TWICE",
    "A tool that may not be repeated is started once, and a result says so where nobody knows "
    "whether it took effect.",
)
def _not_twice(run: RunOutcome) -> Iterator[str]:
    begun = Counter(
        entry.call_id for entry in run.world.diary if entry.name == "pay" and entry.run == run.id
    )
    for call, count in begun.items():
        if count > 1:
            yield f"{call} was started {count} times"
        result = run.results.get(call)
        if result is None or "paid" in result.text or result.metadata.get("outcome_unknown"):
            continue
        yield f"{call} was started, and its result is {result.text!r}"


@invariant("EFFECT", "A tool result that reports success had its effect before.")
def _effect(run: RunOutcome) -> Iterator[str]:
    done = {entry.call_id for entry in run.world.diary if entry.done and entry.run == run.id}
    for call, result in run.results.items():
        if not result.text.startswith(("seen", "paid", "dared", "near", "alone")):
            continue
        if call not in done and "/" not in run.id:
            yield f"{call} reports {result.text!r}, and never took effect"
        if result.text.split()[-1] != call[1:]:
            yield f"{call} has the result of another call: {result.text!r}"


@invariant(
    "ANSWERS",
    "Each answer of a model that was recorded is in the conversation, once, in order.",
)
def _answers(run: RunOutcome) -> Iterator[str]:
    had = answers_in(run.messages)
    own = had[len(had) - len(run.answers) :] if "/" in run.id else had
    if own != run.answers and run.end != "canceled":
        yield f"recorded {run.answers}, the conversation has {own}"


@invariant(
    "EVENTS",
    "The events of a run are numbered without gaps over all links; exactly one is terminal, the "
    "last.",
)
def _events(run: RunOutcome) -> Iterator[str]:
    events = [event for state in run.states for event in state.state.events.all()]
    numbers = [event.seq for event in events]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the numbers are {numbers}"
    ends = [event.type for event in events if event.type in ("done", "failed", "cancelled")]
    if run.end and run.end != "terminated":
        wanted = {"completed": "done", "failed": "failed", "canceled": "cancelled"}[run.end]
        if ends != [wanted] or events[-1].type != wanted:
            yield f"the run is {run.end}, its terminal events are {ends}, the last one is " + str(
                events[-1].type
            )


@invariant("STATUS", "The status in lists of runs is how the run ended.")
def _status(run: RunOutcome) -> Iterator[str]:
    shown = next(
        (
            link.attributes["PerdureStatus"]
            for link in reversed(run.links)
            if "PerdureStatus" in link.attributes
        ),
        '"running"',
    )
    wanted = {"completed": '"done"', "failed": '"failed"', "canceled": '"cancelled"'}
    if run.end in wanted and shown != wanted[run.end]:
        yield f"the run is {run.end}, shown is {shown}"


@invariant(
    "BUDGETS",
    "A run makes at most `max_iterations` model calls, one more for its final answer, and begins "
    "no round of tools after `max_tool_calls`.",
)
def _budgets(run: RunOutcome) -> Iterator[str]:
    options, loop = run.last.state.options, run.last.state.loop
    done = 0
    for link, event in run.scheduled(MODEL):
        end = run.end_of(link, event)
        done += end is not None and end.kind == "activity_completed"
    more = 1 if options.on_limit == "final_answer" else 0
    if done > options.max_iterations + more:
        yield f"{done} model calls, max_iterations is {options.max_iterations}"
    if loop.iterations > done:
        yield f"the run counts {loop.iterations} model calls, its histories have {done}"
    if options.max_tool_calls is not None and loop.tool_calls > options.max_tool_calls + 2:
        yield f"{loop.tool_calls} tool calls, max_tool_calls is {options.max_tool_calls}"


INVARIANTS["DECISIONS"] = (
    "A call that needs an approval is executed only after one, and never after a denial; of "
    "several decisions the first counts, and another one is refused."
)


def _decisions(world: World) -> Iterator[str]:
    people = world.people
    assert people is not None
    begun = {entry.call_id: entry for entry in world.diary if entry.name == "risky"}
    for call, made in people.decisions.items():
        taken = [
            (update, approves)
            for update, approves in made
            if update.state == "done" and not _is_failure(update.outcome)
        ]
        contents = {
            (approves, str(decoded(update.input[0]).get("arguments"))) for update, approves in taken
        }
        if len(contents) > 1:
            yield f"{call}: {[update.id for update, _ in taken]} differ, and all were accepted"
        for update, approves in taken:
            if not approves and call in begun:
                yield f"{call} was executed, and {update.id} denied it"
            edited = decoded(update.input[0]).get("arguments")
            if approves and edited and call in begun and begun[call].arguments != edited["text"]:
                yield f"{call} was executed with {begun[call].arguments!r}, approved was {edited}"
    for call in begun:
        if not any(approves for _, approves in people.decisions.get(call, ())):
            yield f"{call} was executed, and nobody has approved it"


def _is_failure(outcome: object) -> bool:
    return type(outcome).__name__ == "Failure"


@invariant(
    "CANCEL",
    "A cancelled run ends as cancelled, unless it ends in the same workflow task that brings the "
    "cancellation; in later ones, it begins no model or tool call.",
)
def _cancel(run: RunOutcome) -> Iterator[str]:
    for link in run.links:
        asked = next((event for event in link.events if event.kind == "cancel_requested"), None)
        if asked is None:
            continue
        completed = [event for event in link.events if event.kind == "task_completed"]
        later = [event.id for event in completed if event.ref > asked.id]
        closing = link.closing
        if closing is None or not later or closing.task == later[0]:
            continue
        if closing.kind not in ("canceled", "terminated"):
            yield f"the run was cancelled at event {asked.id}, and is {closing.kind}"
        for event in link.events[asked.id :]:
            if event.kind == "activity_scheduled" and event.task != later[0]:
                type_ = event.body.schedule_activity.activity_type
                if type_ == MODEL or type_.startswith(TOOL):
                    yield f"event {event.id} begins {type_} after the cancellation {asked.id}"


INVARIANTS.update(SENTENCES)
