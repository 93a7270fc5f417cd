"""Checks an agent against this machine: providers, the code of its tools, the files of its
sub-agents.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..agents import DEFAULT_PROVIDER, Agent
from ..arguments import Place
from ..commands import command_line
from ..declared_tools import RICH_KINDS, Tool
from ..errors import ConfigurationError, LoadError
from ..guardrails import instruct_functions, prepare_functions
from ..json_types import JsonView
from ..prompty.check.check import FurtherCheck, check
from ..prompty.check.findings import Finding, warning
from ..prompty.portable import DELEGATES
from ..prompty.references import FromEnvironment, is_unset
from ..prompty.shorthands import map_strings, maps_in
from ..prompty.worker_limits import WorkerLimits
from ..prompty.worker_refusals import refusals, remedy
from ..protocol.signatures import UNDECIDABLE, vouch_keys
from ..providers.dialects import dialect_problem
from ..providers.registry import id_problem, media_problem, model_problem
from ..settings.delegates import REMOTE, with_delegates
from ..text import did_you_mean
from ..tools.kind import BUILT_IN, Kinds, ToolKind, get_tool
from ..webhooks import Webhook, secret_problem


def further_checks(
    functions: Collection[str] = (), *, has_model: bool = True, elsewhere: bool = False
) -> list[FurtherCheck]:
    """Return the checks, for `prompty.check`.

    `functions` are the names of the tools that have one. Without `has_model`, something else
    answers in the place of the agent's model. Workers `elsewhere` may have things that are missing
    here, which then are warnings.
    """
    return [
        *([_model] if has_model else []),
        partial(_tools, functions=functions, elsewhere=elsewhere),
        *([] if elsewhere else [_approvers, _webhooks]),
        _delegates,
        _SubAgents(elsewhere).check,
    ]


def declarations_by(
    functions: Mapping[str, Callable[..., Any]], *, are_all: bool = True
) -> FurtherCheck:
    """Return a check, for `prompty.check`, of functions that contradict their declarations, and of
    missing ones if these are all.
    """
    return partial(_declarations, functions=functions, are_all=are_all)


def beyond_limits(asset: JsonView, folder: Path) -> Iterator[Finding]:
    """Warn, for `prompty.check`, of everything that workers refuse by default."""
    written = map_strings(
        asset, lambda place, text: text.reference if isinstance(text, FromEnvironment) else text
    )
    found = refusals(written, limits := WorkerLimits.from_environment())
    for place, refused in found:
        does = f"a worker {refused.does} unless its owner allows it"
        yield warning(place, f"`perdure run` and `dev` allow this; {does}")
    if found:
        yield Finding((), remedy(written, limits), "warning", line=1, is_last=True)


def _finding(place: Place, text: str, *, is_error: bool) -> Finding:
    return Finding(place, text, "error" if is_error else "warning")


def _at(fields: Any, *path: str) -> Any:
    """Return the value at a path; None where something else is in the way."""
    for key in path:
        fields = fields.get(key) if isinstance(fields, Mapping) else None
    return fields


def _known_text(value: Any, default: str = "") -> str | None:
    """Return the text; None for another value, and for one that only a worker's variable has."""
    text = value or default
    return text if isinstance(text, str) and not is_unset(text) else None


def _valid_tools(asset: JsonView) -> Iterator[tuple[Place, Tool]]:
    """Yield the tools without errors; other checks report those of the rest."""
    for place, fields in maps_in(asset.get("tools"), ("tools",)):
        try:
            yield place, TypeAdapter[Tool](Tool).validate_python(fields)
        except ValidationError:
            continue


def _model(asset: JsonView, folder: Path) -> Iterator[Finding]:
    others = maps_in(_at(asset, "model", "fallback"), ("model", "fallback"))
    problem, fields = None, asset.get("model")
    for place, each in [(("model",), fields), *others]:
        provider = _known_text(_at(each, "provider"), DEFAULT_PROVIDER)
        api_type = _known_text(_at(each, "apiType"), "chat")
        if provider and api_type and (problem := model_problem(provider, api_type)):
            yield Finding((*place, problem.field), problem.text)
        if isinstance(each, Mapping):
            yield from _id_and_dialect(place, each, provider if api_type else None)
    if problem or others or not (provider and api_type):
        return
    for place, declared in maps_in(asset.get("inputs"), ("inputs",)):
        kind = str(declared.get("kind"))
        is_rich = kind in RICH_KINDS and kind != "thread"
        if is_rich and (text := media_problem(provider, api_type, kind)):
            yield Finding((*place, "kind"), text)


def _id_and_dialect(place: Place, fields: JsonView, provider: str | None) -> Iterator[Finding]:
    """Yield a missing id, an error where the provider's own server would be asked, and an unknown
    dialect.
    """
    id = fields.get("id")
    if provider and isinstance(id, str | None) and not is_unset(id):
        endpoint, kind = (str(_at(fields, "connection", key) or "") for key in ("endpoint", "kind"))
        if problem := id_problem(provider, id, endpoint, kind):
            yield _finding((*place, problem.field), problem.text, is_error=problem.is_fatal)
    name = _known_text(_at(fields, "options", "dialect"))
    if name and (text := dialect_problem(name)):
        where = (*place, "options", "dialect")
        yield warning(where, f"{text}, or one that a worker registers")


def _tools(
    asset: JsonView, folder: Path, *, functions: Collection[str], elsewhere: bool
) -> Iterator[Finding]:
    kinds, valid = Kinds(), dict(_valid_tools(asset))
    for place, fields in maps_in(asset.get("tools"), ("tools",)):
        name, kind = fields.get("name"), fields.get("kind", "function")
        if not isinstance(name, str) or not isinstance(kind, str) or kind == "function":
            continue
        if name in functions or get_tool(name):
            continue
        try:
            found = kinds.get(kind)
        except ConfigurationError as error:
            yield Finding((*place, "kind"), str(error))
            continue
        if found is None:
            yield _no_handler((*place, "kind"), name, kind)
        elif isinstance(found, ToolKind) and (tool := valid.get(place)):
            yield from (Finding(place, text) for text in found.problems(tool))
            for text in found.file_problems(tool, folder):
                yield _finding(place, text, is_error=not elsewhere)


def _no_handler(place: Place, name: str, kind: str) -> Finding:
    """Return a warning, because another process may have the kind; an error where it looks like a
    misspelling.
    """
    known = ("function", *BUILT_IN)
    hint = did_you_mean(kind.lower(), known)
    text = (
        f"nothing executes tools of kind {kind!r} here{hint}. Expected {', '.join(known)}, or a "
        f"worker that has a function named {name!r} or the kind: create_worker(tool_kinds="
        f"{{{kind!r}: …}}), or a package that adds it"
    )
    return _finding(place, text, is_error=bool(hint))


def _approvers(asset: JsonView, folder: Path) -> Iterator[Finding]:
    """Warn of tools about whose calls nobody can decide, for want of a key."""
    has_keys = bool(vouch_keys().keys)
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        approval = _at(tool, "perdure", "approval")
        needs_key = isinstance(approval, Mapping) and {"by", "notRequester", "count"} & {*approval}
        if needs_key and not has_keys:
            where = (*place, "perdure", "approval")
            yield warning(where, UNDECIDABLE.format(f"of {tool.get('name')!s:.100}"))


def _webhooks(asset: JsonView, folder: Path) -> Iterator[Finding]:
    """Warn of webhooks whose notices can't be signed here."""
    written = _at(asset, "metadata", "perdure", "webhooks") or []
    try:
        hooks = TypeAdapter(list[Webhook]).validate_python(written)
    except ValidationError:
        return  # Another check reports the mistakes.
    for variable in dict.fromkeys(hook.secret for hook in hooks):
        if problem := secret_problem(variable, os.environ.get(variable, "")):
            place = ("metadata", "perdure", "webhooks")
            yield warning(place, f"no notice will be sent: the {problem}")


def _declarations(
    asset: JsonView, folder: Path, *, functions: Mapping[str, Callable[..., Any]], are_all: bool
) -> Iterator[Finding]:
    from ..tools.declaration import contradiction  # with all that a call needs

    names = [str(fields.get("name")) for _, fields in maps_in(asset.get("tools"), ("tools",))]
    for name in [] if any(_named_agents(asset)) else sorted(functions.keys() - names):
        hint = did_you_mean(name, [each for each in names if each not in functions])
        if hint or are_all:
            text = f"--tools has a function {name!r}, which the agent does not declare{hint}"
            yield warning(("tools",), f"{text}. The model is not offered it")
    decorated = {"instructionsBy": instruct_functions, "prepareTools": prepare_functions}
    for setting, known in decorated.items() if are_all else ():
        named = _at(asset, "metadata", "perdure", setting)
        if named is not None and named not in known:
            text = f"no function of --tools named {named!r} has the decorator that {setting} needs"
            there = ", ".join(known) or "none"
            yield warning(("metadata", "perdure", setting), f"{text}; there: {there}")
    for place, tool in _valid_tools(asset):
        function, problem = functions.get(tool.name), None
        if function is not None:
            problem = contradiction(tool, function)
        elif tool.kind == "function" and are_all:
            there = ", ".join(functions) or "none"
            problem = f"no function is named {tool.name!r}. Expected one in --tools; there: {there}"
        if problem:
            yield Finding((*place, "name"), problem)


def _named_agents(asset: JsonView) -> Iterator[tuple[Place, str, bool]]:
    """Yield the places that name other agents, with their paths; True where the agent has a loop of
    its own.
    """
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        path = _known_text(tool.get("path"))
        if tool.get("kind") == "prompty" and path:
            yield (*place, "path"), path, tool.get("mode") == "agentic"
    own = _at(asset, "metadata", "perdure")
    for place, entry in maps_in(_at(own, "agents"), DELEGATES):
        if isinstance(path := entry.get("path"), str):
            yield place, path, True
    entries = _at(own, "handoffs")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if path := _known_text(entry if isinstance(entry, str) else _at(entry, "path")):
            yield ("metadata", "perdure", "handoffs", index), path, False


def _delegates(asset: JsonView, folder: Path) -> Iterator[Finding]:
    metadata = asset.get("metadata")
    try:
        agent = with_delegates(
            Agent(metadata=dict(metadata) if isinstance(metadata, Mapping) else None)
        )
    except LoadError as error:
        section, _, field = str(error.field).rpartition(".")
        if section == "metadata.perdure" and field in ("agents", "handoffs"):
            yield Finding(DELEGATES[:2], f"{field}: {error.message}")
        return  # Another check reports the other mistakes.
    except ValueError:
        return
    kinds = Kinds()
    for tool in agent.tools or ():
        if tool.kind == REMOTE and isinstance(kind := kinds.get(REMOTE), ToolKind):
            yield from (Finding(DELEGATES, f"{tool.name}: {text}") for text in kind.problems(tool))


@dataclass(frozen=True)
class _SubAgents:
    """Checks the files of sub-agents, which must lie in the folder of the first agent."""

    elsewhere: bool = False
    around: frozenset[Path] = frozenset()
    """The files of the agents that the checked one is a part of."""
    root: Path | None = None
    entered: set[Path] = field(default_factory=set)
    """The agents that a run may be handed over to; each is entered once."""

    def check(self, asset: JsonView, folder: Path) -> Iterator[Finding]:
        """Yield the findings about the sub-agents of the asset."""
        root = self.root or folder.resolve()
        for place, path, has_loop in _named_agents(asset):
            file = (folder / path).resolve()
            if text := _missing_file(path, folder):
                yield _finding(place, text, is_error=not self.elsewhere)
            elif not file.is_relative_to(root):
                above = command_line("validate", os.path.normpath(folder / path))
                yield Finding(
                    place,
                    f"the sub-agent {path!r} lies outside the folder of the agent, {str(root)!r}. "
                    f"Begin with an agent above both: `{above}`",
                )
            elif file in self.around:
                if has_loop:
                    text = f"the sub-agent {path!r} calls itself, in a circle of agents"
                    yield Finding(place, text)
            elif file not in self.entered:
                if place[2:3] == ("handoffs",):
                    self.entered.add(file)
                inner = _SubAgents(False, self.around | {file}, root, self.entered)
                yield from _within(place, file, inner)


def _within(place: Place, file: Path, inner: _SubAgents) -> Iterator[Finding]:
    """Yield the errors of a sub-agent's own file."""
    for problem in check(file, also=[_model, inner.check]):
        if problem.severity == "error":
            where = f"{file.name}:{problem.line}" if problem.line else file.name
            text = f"{where}: {problem.field or 'the file'}: {problem.message}"
            yield Finding(place, f"the sub-agent is wrong: {text}")


def _missing_file(path: str, folder: Path) -> str | None:
    try:
        if (folder / path).is_file():
            return None
        here = sorted(each.name for each in folder.glob("*.prompty"))
    except (OSError, ValueError) as error:
        return f"can't look for the sub-agent {path!r}: {error}"
    return (
        f"there is no file {path!r} in {str(folder)!r}{did_you_mean(path, here)}. Expected the "
        f"sub-agent's .prompty file; there: {', '.join(here)}"
    )


MAX_PROBLEMS = 5


def specification_findings(asset: JsonView, folder: Path) -> Iterator[Finding]:
    """Warn, for `prompty.check`, of mistakes in OpenAPI documents: a tool often works all the
    same.
    """
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        path = tool.get("specification")
        if tool.get("kind") != "openapi" or not isinstance(path, str) or not path:
            continue
        from ..tools.openapi import document, sources  # few agents have such a tool

        if sources.is_url(path):
            continue
        try:
            mistakes = sources.mistakes_in_file(path, folder)[:MAX_PROBLEMS]
        except document.SpecificationError:
            continue  # Another check reports the mistake.
        except ImportError:
            return
        for text in mistakes:
            where = (*place, "specification")
            yield warning(where, f"{path} is not a valid OpenAPI document: {text}")
