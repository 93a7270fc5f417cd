"""Checks an agent against what is at hand: providers, what executes its tools, the files of its
sub-agents.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..activities.limited import refusals, remedy
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
from ..protocol.signatures import UNDECIDABLE, vouch_keys
from ..providers.dialects import dialect_problem
from ..providers.registry import id_problem, media_problem, model_problem
from ..settings.delegates import REMOTE, with_delegates
from ..text import did_you_mean, nearest
from ..tools.kind import BUILT_IN, Kinds, ToolKind, get_tool
from ..webhooks import Webhook, secret_problem
from ..worker_limits import WorkerLimits


def further_checks(
    functions: Collection[str] = (), *, has_model: bool = True, elsewhere: bool = False
) -> list[FurtherCheck]:
    """Return the checks, for `prompty.check`.

    `functions` are the names of the tools that have one. Without `has_model`, something else
    answers in the place of the agent's model. When the workers are `elsewhere`, they may have what
    is missing here.
    """
    tools = partial(_tools, functions=functions, elsewhere=elsewhere)
    called = partial(_sub_agents, elsewhere=elsewhere, around=frozenset())
    return [
        *([_model] if has_model else []),
        tools,
        *([] if elsewhere else [_approvers, _webhooks]),
        _delegates,
        called,
    ]


def declarations_by(
    functions: Mapping[str, Callable[..., Any]], *, are_all: bool = True
) -> FurtherCheck:
    """Check, for `prompty.check`, that no function contradicts its declaration, and that each
    declared one is there if these are all.
    """
    return partial(_declarations, functions=functions, are_all=are_all)


def beyond_limits(asset: JsonView, folder: Path) -> Iterator[Finding]:
    """Check, for `prompty.check`, that warns of what workers refuse where their owners do not say
    otherwise.
    """
    written = map_strings(
        asset, lambda place, text: text.reference if isinstance(text, FromEnvironment) else text
    )
    found = refusals(written, limits := WorkerLimits.from_environment())
    for place, refused in found:
        yield warning(
            place,
            f"`perdure run` and `dev` allow this; a worker {refused.does} unless its owner allows "
            "it",
        )
    if found:
        yield Finding((), remedy(written, limits), "warning", line=1, is_last=True)


def _model(asset: JsonView, folder: Path) -> Iterator[Finding]:
    model = asset.get("model")
    fields = model if isinstance(model, Mapping) else {}
    others = [*maps_in(fields.get("fallback"), ("model", "fallback"))]
    known = [
        (place, named)
        for place, each in [(("model",), fields), *others]
        if (named := _named_model(each))
    ]
    problems = [(place, problem) for place, named in known if (problem := model_problem(*named))]
    yield from (Finding((*place, problem.field), problem.text) for place, problem in problems)
    if isinstance(model, Mapping):
        yield from _ids([(("model",), model), *others])
        yield from _dialects([(("model",), model), *others])
    if problems or others or not known:
        return
    for place, declared in maps_in(asset.get("inputs"), ("inputs",)):
        kind = declared.get("kind")
        if kind in RICH_KINDS and kind != "thread" and (text := media_problem(*known[0][1], kind)):
            yield Finding((*place, "kind"), text)


def _ids(models: Iterable[tuple[Place, JsonView]]) -> Iterator[Finding]:
    """Yield the models without an id: an error where the provider's own server would be asked."""
    for place, fields in models:
        id, named, written = fields.get("id"), _named_model(fields), fields.get("connection")
        if named is None or not isinstance(id, str | None) or is_unset(id):
            continue  # Another check says what is wrong with it.
        connection = written if isinstance(written, Mapping) else {}
        endpoint, kind = (str(connection.get(key) or "") for key in ("endpoint", "kind"))
        if problem := id_problem(named[0], id, endpoint, kind):
            where = (*place, problem.field)
            yield Finding(where, problem.text) if problem.is_fatal else warning(where, problem.text)


def _dialects(models: Iterable[tuple[Place, JsonView]]) -> Iterator[Finding]:
    """Warn of dialects that are not known here: a worker's tools may register them."""
    for place, fields in models:
        options = fields.get("options")
        name = options.get("dialect") if isinstance(options, Mapping) else None
        if (
            isinstance(name, str)
            and not is_unset(name)
            and name
            and (problem := dialect_problem(name))
        ):
            yield warning(
                (*place, "options", "dialect"), f"{problem}, or one that a worker registers"
            )


def _named_model(fields: JsonView) -> tuple[str, str] | None:
    """Return the provider and its API; None where they are not known here."""
    provider, api_type = fields.get("provider") or DEFAULT_PROVIDER, fields.get("apiType", "chat")
    if (
        not isinstance(provider, str)
        or not isinstance(api_type, str)
        or is_unset(provider)
        or is_unset(api_type)
    ):
        return None
    return provider, api_type


def _tools(
    asset: JsonView, folder: Path, *, functions: Collection[str], elsewhere: bool
) -> Iterator[Finding]:
    kinds = Kinds()
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        name, kind = tool.get("name"), tool.get("kind", "function")
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
        elif isinstance(found, ToolKind):
            yield from _problems_of(found, tool, place, folder, elsewhere=elsewhere)


def _approvers(asset: JsonView, folder: Path) -> Iterator[Finding]:
    """Warn of tools about whose calls nobody can decide, for want of a key."""
    try:
        has_keys = bool(vouch_keys().keys)
    except ConfigurationError as error:
        yield warning((), str(error), line=1)
        return
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        policy = tool.get("perdure")
        approval = policy.get("approval") if isinstance(policy, Mapping) else None
        if (
            isinstance(approval, Mapping)
            and not has_keys
            and not {"by", "notRequester", "count"}.isdisjoint(approval)
        ):
            yield warning(
                (*place, "perdure", "approval"), UNDECIDABLE.format(f"of {tool.get('name')!s:.100}")
            )


def _webhooks(asset: JsonView, folder: Path) -> Iterator[Finding]:
    """Warn of webhooks whose notices can't be signed here."""
    try:
        hooks = TypeAdapter(list[Webhook]).validate_python(
            _own_settings(asset).get("webhooks") or []
        )
    except ValidationError:
        return  # Another check says what is wrong with them.
    for variable in dict.fromkeys(hook.secret for hook in hooks):
        if problem := secret_problem(variable, os.environ.get(variable, "")):
            yield warning(
                ("metadata", "perdure", "webhooks"), f"nobody will be notified: the {problem}"
            )


def _problems_of(
    kind: ToolKind, fields: JsonView, place: Place, folder: Path, *, elsewhere: bool
) -> Iterator[Finding]:
    """Yield what the kind finds wrong in the declaration; nothing where another check finds a
    mistake.
    """
    try:
        tool: Tool = TypeAdapter[Tool](Tool).validate_python(fields)
    except ValidationError:
        return
    yield from (Finding(place, text) for text in kind.problems(tool))
    for text in kind.file_problems(tool, folder):
        yield warning(place, text) if elsewhere else Finding(place, text)


def _declarations(
    asset: JsonView, folder: Path, *, functions: Mapping[str, Callable[..., Any]], are_all: bool
) -> Iterator[Finding]:
    from ..tools.declaration import (
        contradiction,
    )  # with all that a call needs; only functions have signatures

    names = [str(fields.get("name")) for _, fields in maps_in(asset.get("tools"), ("tools",))]
    for name in [] if any(_named_agents(asset)) else sorted(functions.keys() - names):
        hint = did_you_mean(name, [each for each in names if each not in functions])
        if hint or are_all:
            text = f"--tools has a function {name!r}, which the agent does not declare{hint}"
            yield warning(("tools",), f"{text}. The model is not offered it")
    own = _own_settings(asset) if are_all else {}
    for setting, known in (
        ("instructionsBy", instruct_functions),
        ("prepareTools", prepare_functions),
    ):
        if (named := own.get(setting)) is not None and named not in known:
            text = f"no function of --tools named {named!r} has the decorator that {setting} needs"
            yield warning(
                ("metadata", "perdure", setting), f"{text}; there: {', '.join(known) or 'none'}"
            )
    for place, fields in maps_in(asset.get("tools"), ("tools",)):
        try:
            tool: Tool = TypeAdapter[Tool](Tool).validate_python(fields)
        except ValidationError:
            continue  # Another check says what is wrong with it.
        function = functions.get(tool.name)
        if function is None and tool.kind == "function" and are_all:
            there = ", ".join(functions) or "none"
            yield Finding(
                (*place, "name"),
                f"no function is named {tool.name!r}. Expected one in --tools; there: {there}",
            )
        elif function is not None and (problem := contradiction(tool, function)):
            yield Finding((*place, "name"), problem)


def _no_handler(place: Place, name: str, kind: str) -> Finding:
    """Return a warning, because another process may have the kind; an error where it looks like a
    misspelling.
    """
    known = ("function", *BUILT_IN)
    hint = did_you_mean(kind.lower(), known)
    text = (
        f"nothing executes tools of kind {kind!r} here{hint}. Expected {', '.join(known)}, or a "
        "worker that has a "
        f"function named {name!r} or the kind: create_worker(tool_kinds={{{kind!r}: …}}), or a "
        "package that adds it"
    )
    return Finding(place, text) if hint else warning(place, text)


def _sub_agents(
    asset: JsonView,
    folder: Path,
    *,
    elsewhere: bool,
    around: frozenset[Path],
    root: Path | None = None,
    entered: set[Path] | None = None,
) -> Iterator[Finding]:
    """`around` has the files of the agents that this one is a part of; all of them must lie in
    `root`.

    `entered` has those that a run may be handed over to, each of which is entered once.
    """
    root, entered = root or folder.resolve(), set() if entered is None else entered
    for place, path, has_loop in _named_agents(asset):
        file = (folder / path).resolve()
        if text := _missing_file(path, folder):
            yield warning(place, text) if elsewhere else Finding(place, text)
        elif not file.is_relative_to(root):
            beyond = os.path.normpath(folder / path)
            outside = f"the sub-agent {path!r} lies outside the folder of the agent, {str(root)!r}"
            yield Finding(
                place,
                f"{outside}. Begin with an agent above both: `{command_line('validate', beyond)}`",
            )
        elif file in around:
            if has_loop:
                yield Finding(place, f"the sub-agent {path!r} calls itself, in a circle of agents")
        elif file not in entered:
            if place[2:3] == ("handoffs",):
                entered.add(file)
            yield from _within(place, file, around, root, entered)


def _own_settings(asset: JsonView) -> JsonView:
    """Return `metadata.perdure` of an agent's file."""
    metadata = asset.get("metadata")
    settings = metadata.get("perdure") if isinstance(metadata, Mapping) else None
    return settings if isinstance(settings, Mapping) else {}


def _named_agents(asset: JsonView) -> Iterator[tuple[Place, str, bool]]:
    """Yield the places that name other agents, with their paths, and whether those have loops of
    their own.
    """
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        path = tool.get("path")
        if tool.get("kind") == "prompty" and isinstance(path, str) and not is_unset(path):
            yield (*place, "path"), path, tool.get("mode") == "agentic"
    own = _own_settings(asset)
    for place, entry in maps_in(own.get("agents"), DELEGATES):
        if isinstance(path := entry.get("path"), str):
            yield place, path, True
    entries = own.get("handoffs")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        path = entry.get("path") if isinstance(entry, Mapping) else entry
        if isinstance(path, str) and not is_unset(path):
            yield ("metadata", "perdure", "handoffs", index), path, False


def _delegates(asset: JsonView, folder: Path) -> Iterator[Finding]:
    metadata, place = asset.get("metadata"), DELEGATES
    try:
        agent = with_delegates(
            Agent(metadata=dict(metadata) if isinstance(metadata, Mapping) else None)
        )
    except (LoadError, ValueError) as error:
        field = str(error.field) if isinstance(error, LoadError) else ""
        if field in (
            "metadata.perdure.agents",
            "metadata.perdure.handoffs",
        ):  # Another check says what else is wrong.
            yield Finding(place[:2], f"{field.rpartition('.')[2]}: {getattr(error, 'message', '')}")
        return
    kinds = Kinds()
    for tool in agent.tools or ():
        if tool.kind == REMOTE and isinstance(kind := kinds.get(REMOTE), ToolKind):
            yield from (Finding(place, f"{tool.name}: {text}") for text in kind.problems(tool))


def _missing_file(path: str, folder: Path) -> str | None:
    try:
        if (folder / path).is_file():
            return None
        here = sorted(each.name for each in folder.glob("*.prompty"))
        above = [f"../{each.name}" for each in folder.absolute().parent.glob("*.prompty")]
    except (OSError, ValueError) as error:
        return f"can't look for the sub-agent {path!r}: {error}"
    names = {PurePosixPath(each).stem: each for each in (*above, *here)}
    near = nearest(Path(path).stem, names)
    hint = "" if near is None else f" (did you mean {names[near]!r}?)"
    return (
        f"there is no file {path!r} in {str(folder)!r}{hint}. Expected the sub-agent's .prompty "
        "file; "
        f"there: {', '.join(here)}"
    )


def _within(
    place: Place, file: Path, around: frozenset[Path], root: Path, entered: set[Path]
) -> Iterator[Finding]:
    """Yield the errors of a sub-agent's own file."""
    deeper = partial(
        _sub_agents, elsewhere=False, around=around | {file}, root=root, entered=entered
    )
    for problem in check(file, also=[_model, deeper]):
        if problem.severity == "error":
            where = ":".join(str(part) for part in (file.name, problem.line) if part)
            yield Finding(
                place,
                f"the sub-agent is wrong: {where}: {problem.field or 'the file'}: "
                f"{problem.message}",
            )


MAX_PROBLEMS = 5


def specification_findings(asset: JsonView, folder: Path) -> Iterator[Finding]:
    """Yield a warning for each mistake, for `prompty.check`: a tool often works all the same."""
    for place, tool in maps_in(asset.get("tools"), ("tools",)):
        path = tool.get("specification")
        if tool.get("kind") != "openapi" or not isinstance(path, str) or not path:
            continue
        from ..tools.openapi import document, sources  # few agents have such a tool

        if sources.is_url(path):
            continue
        where = (*place, "specification")
        try:
            mistakes = sources.mistakes_in_file(path, folder)
        except document.SpecificationError:
            continue  # Another check says what is wrong with it.
        except ImportError:
            return
        yield from (
            warning(where, f"{path} is not a valid OpenAPI document: {text}")
            for text in mistakes[:MAX_PROBLEMS]
        )
