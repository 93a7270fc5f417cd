"""`perdure rerun`: repeats a run's model calls, answers its tool calls from the record, and
compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .. import testing
from ..agents import others_of, with_others
from ..commands import command_line
from ..json_types import JsonObject
from ..testing.comparison import Comparison, Deviation, Effort
from ..testing.recording import Recording, read_recording, recording_of
from ..text import count_of, format_usd, one_line
from .agent_file import load_agent, read_given
from .consent import require_consent
from .console import answer, describe_call, say
from .given import Given
from .problems import DONE, FAILED, Failure, UsageProblem
from .recorded_run import open_run
from .run_options import run_options


async def rerun(given: Given) -> int:
    """Compare the run with its rerun; return the exit code, 0 for the same path. Raises `Failure`
    for a run that has not ended.
    """
    revised = load_agent(given.agent) if given.agent else None
    inputs = read_given(revised, given.inputs, given.inputs_json)
    options = run_options(given.options).model_dump(exclude_unset=True)
    recording, is_own = await _read_run(given.run)
    if not recording.has_ended:
        raise Failure(
            f"run {recording.id} is {recording.status or 'open'}, expected one that has "
            f"ended. Watch it: {command_line('watch', recording.id)}    resume a held one: "
            f"{command_line('go-on', recording.id)}"
        )
    if revised is None:
        bare: JsonObject = {"tools": None, "metadata": None}
        others = {
            path: each.model_copy(update=bare) for path, each in others_of(recording.agent).items()
        }
        asked = with_others(recording.agent.model_copy(update=bare), others)
        title = f"A rerun of {given.run}"
        await require_consent(title, asked, None, is_own=is_own, yes=given.yes)
    found = await testing.rerun(
        recording, model=given.model, agent=revised, inputs=inputs, options=options
    )
    if given.as_json:
        answer(found.as_json())
    else:
        for line in _report(found):
            answer(line)
    return DONE if found.path == "same" else FAILED


async def _read_run(run: str) -> tuple[Recording, bool]:
    """Return the record, and whether it is on a server of the user's own."""
    if Path(run).is_file():
        return read_recording(run), False
    if run.endswith(".jsonl"):
        raise UsageProblem(
            f"there is no file {run!r}, expected one that `perdure export ID -o {run}` has written"
        )
    async with open_run(run) as (server, handle):
        lines = [line async for line in handle.export(children=False)]
        return recording_of(lines, run), server.embedded is not None


def _report(found: Comparison) -> Iterator[str]:
    say(f"Run {found.run}: {found.recorded_model} as recorded, {found.model} now", "strong")
    calls = f"{found.matched} of {count_of(found.recorded_calls, 'recorded tool call')}"
    for note in found.notes:
        say(f"  without {note}", "faint")
    if found.deviation is None:
        yield f"the same path: {calls} asked for again"
    else:
        yield from _describe_deviation(found.deviation, calls)
    yield ""
    yield f"{'':<14}{'recorded':>14}{'rerun':>14}"
    for name, recorded, now in zip(
        _NAMES, _figures(found.recorded), _figures(found.rerun), strict=True
    ):
        yield f"{name:<14}{recorded:>14}{now:>14}"
    yield ""
    yield f"recorded: {_end(found.recorded_end)}"
    yield f"rerun:    {_end(found.rerun_end)}"


_NAMES = ("model calls", "tool calls", "tokens in", "tokens out", "cost", "model time")


def _figures(effort: Effort) -> list[str]:
    counts = (effort.model_calls, effort.tool_calls, effort.input_tokens, effort.output_tokens)
    return [
        *(f"{count:,}" for count in counts),
        format_usd(effort.cost_usd) or "unknown",
        f"{effort.seconds:.1f} s",
    ]


def _describe_deviation(deviation: Deviation, calls: str) -> Iterator[str]:
    words = {
        "unmatched": "called a tool without a recorded result",
        "skipped": "continued without making every recorded call",
        "unasked": "answered without making every recorded call",
        "failed": "failed",
    }
    yield f"another path: {_where(deviation)} it {words[deviation.why]}; {calls} asked for again"
    for title, listed in (("asked", deviation.asked), ("recorded", deviation.recorded)):
        for each in listed:
            yield f"  {title}: {describe_call(each['name'], each['arguments'])}"


def _where(deviation: Deviation) -> str:
    if deviation.why != "failed":
        return f"in iteration {deviation.iteration}"
    return (
        f"after iteration {deviation.iteration}"
        if deviation.iteration
        else "before the model's first reply"
    )


def _end(end: JsonObject | None) -> str:
    if end is None:
        return "(no answer: the comparison ended before)"
    if failure := end.get("failure"):
        return f"failed ({failure['kind']}): {one_line(failure['message'], 200)}"
    output = end["output"]
    return output if isinstance(output, str) else str(output)
