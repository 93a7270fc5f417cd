"""What the code reader's model says where there is no provider's key: fixed questions, answers from
real results.

The conversation is always the same (which errors are defined, where they are raised, who handles
the one that is raised most). What it says comes from what the tools returned, so it is true of
whatever tree they read.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from perdure.testing import ScriptedReply, ScriptedRequest, call

DEFINITION = r"^class (\w+)\(.*(Error|Exception)\b"
_MATCH = re.compile(r"(?P<path>[^:\n]+):(?P<line>\d+): (?P<text>.*)")


@dataclass(frozen=True)
class Match:
    """One line that search_text found."""

    path: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


def scripted_reply(request: ScriptedRequest) -> ScriptedReply:
    """The reply to each step; for `perdure.testing.ScriptedModel`."""
    results = _results(request)
    steps = (_look_around, _find_raises, _read_the_place, _find_handlers)
    if request.step < len(steps) and (reply := steps[request.step](results)):
        return reply
    return ScriptedReply(text=_answer(results))


def _look_around(results: dict[str, str]) -> ScriptedReply:
    return ScriptedReply(
        thinking=(
            "The question is about error classes. First see what is there, and where classes "
            "derive from errors."
        ),
        text="I look at what files there are and where error classes are defined.",
        tool_calls=[
            call("list_files", "list", pattern="*.py"),
            call(
                "search_text",
                "definitions",
                query=DEFINITION,
                is_regex=True,
                pattern="*.py",
                max_results=1000,
            ),
        ],
    )


def _find_raises(results: dict[str, str]) -> ScriptedReply | None:
    names = _defined(results)
    if not names:
        return None
    main_file, _ = Counter(match.path for match in names.values()).most_common(1)[0]
    pattern = rf"^\s*raise ({'|'.join(names)})\b"
    return ScriptedReply(
        text=(
            f"No file defines more than {main_file}. I read its beginning, and search for where "
            "they are raised."
        ),
        tool_calls=[
            call("read_file", "main", path=main_file, first_line=1, last_line=40),
            call(
                "search_text",
                "raises",
                query=pattern,
                is_regex=True,
                pattern="*.py",
                max_results=1000,
            ),
        ],
    )


def _read_the_place(results: dict[str, str]) -> ScriptedReply | None:
    most = _most_raised(results)
    if most is None:
        return None
    name, first = most
    return ScriptedReply(
        text=f"{name} is raised most often. I look at the first place.",
        tool_calls=[
            call(
                "read_file",
                "place",
                path=first.path,
                first_line=max(1, first.line - 6),
                last_line=first.line + 3,
            )
        ],
    )


def _find_handlers(results: dict[str, str]) -> ScriptedReply | None:
    most = _most_raised(results)
    if most is None:
        return None
    return ScriptedReply(
        text=f"Last, who handles {most[0]}?",
        tool_calls=[
            call(
                "search_text",
                "handlers",
                query=rf"^\s*except\b.*\b{most[0]}\b",
                is_regex=True,
                pattern="*.py",
            )
        ],
    )


def _answer(results: dict[str, str]) -> str:
    defined, raised = _defined(results), _raised(results)
    files = (
        results.get("list", "").partition("\n")[0] if defined else results.get("list", "nothing")
    )
    if not defined:
        return f"This tree defines no error classes of its own. What I looked at: {files}."
    lines = [f"Among {files} (*.py), these error classes are defined:", ""]
    for name, definition in sorted(
        defined.items(), key=lambda item: (-len(raised[item[0]]), item[0])
    ):
        places = raised[name]
        where = (
            f"raised {_times(len(places))}, first at {places[0].place}"
            if places
            else "never raised by name"
        )
        lines.append(f"- {name} ({definition.place}): {where}")
    if _is_cut(results.get("raises", "")):
        lines += [
            "",
            "There are more `raise` statements than the search showed: the counts are lower "
            "bounds.",
        ]
    return "\n".join([*lines, *_about_the_most_raised(results), "", _DISCLOSURE])


def _about_the_most_raised(results: dict[str, str]) -> list[str]:
    most = _most_raised(results)
    if most is None:
        return []
    handlers = [match.place for match in _matches(results.get("handlers", ""))]
    shown = ", ".join(handlers[:5]) + (
        f" and {len(handlers) - 5} more" if len(handlers) > 5 else ""
    )
    handled = f"It is handled at {shown}." if handlers else "Nothing here handles it by name."
    code = [
        f"    {line}"
        for line in results.get("place", "").splitlines()[1:]
        if not line.startswith("…")
    ]
    return ["", f"{most[0]} is raised most often; around {most[1].place}:", "", *code, "", handled]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


_DISCLOSURE = (
    "(A scripted model wrote this from what the tools returned. With OPENAI_API_KEY or "
    "ANTHROPIC_API_KEY set, "
    "a real model answers the question that you ask.)"
)


def _defined(results: dict[str, str]) -> dict[str, Match]:
    """Error class → where it is defined first."""
    defined: dict[str, Match] = {}
    for match in _matches(results.get("definitions", "")):
        if found := re.match(DEFINITION, match.text):
            defined.setdefault(found[1], match)
    return defined


def _raised(results: dict[str, str]) -> dict[str, list[Match]]:
    """Error class → the lines that raise it."""
    raised: dict[str, list[Match]] = {name: [] for name in _defined(results)}
    for match in _matches(results.get("raises", "")):
        if (found := re.match(r"raise (\w+)", match.text)) and found[1] in raised:
            raised[found[1]].append(match)
    return raised


def _most_raised(results: dict[str, str]) -> tuple[str, Match] | None:
    raised = {name: places for name, places in _raised(results).items() if places}
    if not raised:
        return None
    name = min(raised, key=lambda each: (-len(raised[each]), each))
    return name, raised[name][0]


def _matches(result: str) -> list[Match]:
    found = (_MATCH.fullmatch(line) for line in result.splitlines())
    return [Match(match["path"], int(match["line"]), match["text"]) for match in found if match]


def _is_cut(result: str) -> bool:
    return result.rpartition("\n")[2].startswith("… ")


def _results(request: ScriptedRequest) -> dict[str, str]:
    """The tools' results so far, by the ids that this script gave its calls."""
    return {
        message.metadata["tool_call_id"]: message.text
        for message in request.messages
        if message.role == "tool"
    }
