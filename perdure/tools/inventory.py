"""A worker's inventory of the tools that an agent declares: their code, their functions, and how
calls are executed.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from ..arguments import json_value
from ..declared_tools import ApprovalPolicy, FunctionTool, OfferedFunction, Tool, ToolPolicy
from ..errors import ConfigurationError, LoadError
from ..options import MAX_SECONDS, MIN_SECONDS
from ..schema import without_properties
from ..settings.child_agents import handoffs_of
from ..text import did_you_mean
from ..tool_calls import ToolSpec
from .declaration import completed_declaration, contradiction, has_parameters, place_of
from .handlers import Handler, Handlers
from .kind import Asking, Offering, ToolOfferError, ToolUnavailable, closed_schema
from .resources import Resources
from .results import describe
from .signature import UnfitDepsError, signature_of
from .signature_change import recorded_signature
from .user_loop import UserLoop


def with_policy(spec: ToolSpec, policy: ToolPolicy | None, *, is_function: bool) -> ToolSpec:
    """Return the tool's spec combined with the file's settings.

    The stricter of file and code wins. But for a tool without code of its own, the file may set
    idempotent or parallel-safe: only its author can know. Raises ConfigurationError for a
    contradictory policy, and for invalid numbers.
    """
    if policy is not None:
        strict = {
            "timeout": _smallest(spec.timeout, policy.timeout),
            "max_result": _smallest(spec.max_result, policy.max_result),
            "context": policy.context or 0,
            "approval_timeout": _smallest(spec.approval_timeout, policy.approval_timeout),
            "needs_approval": spec.needs_approval or policy.approval not in (None, "never"),
            "approvers": _approvers(spec, policy),
            "retries": spec.retries if policy.retries is None else policy.retries,
            "local": spec.local if policy.local is None else policy.local,
            "idempotent": _stricter(spec.idempotent, policy.idempotent, is_function=is_function),
            "safe_to_repeat": spec.safe_to_repeat
            if policy.idempotent is None
            else policy.idempotent,
            "parallel_safe": _stricter(
                spec.parallel_safe, policy.parallel_safe, is_function=is_function
            ),
        }
        spec = spec.model_copy(update=strict)
    _check_numbers(spec)
    if spec.needs_approval:
        spec = spec.model_copy(update={"approval_check": None})
    for is_set, what, why in (
        (spec.isolated, "isolated", "a local tool has no time for a process"),
        (spec.max_parallel, "has max_parallel", "a local tool is executed where its run is"),
        (not spec.idempotent, "not idempotent", "a lost local activity may be executed again"),
    ):
        if spec.local and is_set:
            raise ConfigurationError(
                f"tool {spec.name!r} is local and {what}: {why}. Leave out one of the two"
            )
    return spec


def _approvers(spec: ToolSpec, policy: ToolPolicy) -> ApprovalPolicy | None:
    if not isinstance(policy.approval, ApprovalPolicy):
        return spec.approvers
    try:
        return policy.approval.with_stricter(spec.approvers)
    except ValueError as error:
        raise ConfigurationError(
            f"tool {spec.name!r}: {error}: the file and the function must name one role"
        ) from error


def _check_numbers(spec: ToolSpec) -> None:
    seconds = f"seconds, from {MIN_SECONDS:g} to {MAX_SECONDS:,} (ten years)"
    for name, least, most, expected in (
        ("timeout", MIN_SECONDS, MAX_SECONDS, seconds),
        ("approval_timeout", MIN_SECONDS, MAX_SECONDS, seconds),
        ("retries", 0, math.inf, "at least 0"),
        ("max_result", 1, math.inf, "at least 1"),
        ("max_parallel", 1, math.inf, "at least 1"),
    ):
        value = getattr(spec, name)
        if value is not None and not least <= value <= most:
            raise ConfigurationError(
                f"tool {spec.name!r}: {name} is {value!r}: expected {expected}"
            )


def _smallest(*values: float | None) -> float | None:
    given = [value for value in values if value is not None]
    return min(given, default=None)


def _stricter(code: bool, file: bool | None, *, is_function: bool) -> bool:
    if file is None:
        return code
    return code and file if is_function else file


NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_SCHEMA_BYTES = 64 * 1024
MAX_OFFERED_BYTES = 1024 * 1024
"""Limit for all functions that one agent's kinds offer: the inventory is recorded."""


class OfferProblem(NamedTuple):
    """Why a tool's functions could not be listed."""

    tool: str
    kind: str
    why: str

    @property
    def title(self) -> str:
        """The tool, as shown to people."""
        return f"tool {self.tool!r} (kind: {self.kind})"

    def __str__(self) -> str:
        return f"{self.title}: {self.why}"


@dataclass
class ToolInventory:
    """A worker's facts about the tools that an agent declares."""

    tools: list[ToolSpec] = field(default_factory=list)
    """The functions offered to the model, in order."""
    missing: dict[str, str] = field(default_factory=dict)
    """Name → kind, for each declared tool without an executor here."""
    offered: list[Tool] = field(default_factory=list)
    """Additions to the file: declarations completed by their functions, and the functions that
    kinds offer."""
    problems: list[str] = field(default_factory=list)
    """Faults of declarations: they contradict their functions, or their kind can't use them."""
    unknown: list[OfferProblem] = field(default_factory=list)
    """The tools whose functions could not be listed."""
    unavailable: dict[str, str] = field(default_factory=dict)
    """Name → reason, for each declared tool that the run does without."""
    notes: list[str] = field(default_factory=list)
    """Notes for people about how tools are executed, beyond the file."""
    unasked: list[str] = field(default_factory=list)
    """The tools whose kind would have to query others, where that was not wanted."""


async def take_inventory(
    handlers: Handlers,
    asking: Asking,
    loop: UserLoop,
    resources: Resources,
    *,
    may_ask: bool = True,
) -> ToolInventory:
    """Return how each declared tool is executed. If `may_ask` is false, kinds that query others are
    left out as `unasked`.

    Raises ConfigurationError for a contradictory policy, and for a kind that can't be loaded.
    """
    found = ToolInventory()
    entries = list(_entries(handlers, asking, found))
    of_kinds = [
        _offer(handler, asking, loop, found, may_ask=may_ask) for handler in entries if handler.kind
    ]
    offers = iter(await asyncio.gather(*of_kinds) if of_kinds else ())
    taken = {
        handler.tool.offered_name(handler.tool.name) for handler in entries if not handler.kind
    }
    for handler in entries:
        if handler.kind is None:
            _take_function(handler, found, resources, asking.deps)
        else:
            offered = next(offers)
            _take_offerings(handler, offered, found, taken)
    for later in handoffs_of(asking.agent, asking.agents).values() if asking.agents else ():
        there = filter(None, map(handlers.find, later.tools or ()))
        found.problems += [
            f"{later.name}: {text}" for each in there for text in _misfits(each, asking.deps)
        ]
    size = sum(len(tool.model_dump_json()) for tool in found.offered)
    if size > MAX_OFFERED_BYTES:
        found.problems.append(
            f"the tools take {size:,} bytes together, at most {MAX_OFFERED_BYTES:,} are possible: "
            "offer fewer of them"
        )
    return found


def _entries(handlers: Handlers, asking: Asking, found: ToolInventory) -> Iterator[Handler]:
    for tool in asking.agent.tools or []:
        handler = handlers.find(tool)
        if handler is None:
            found.missing[tool.name] = tool.kind
            continue
        yield handler


async def _offer(
    handler: Handler, asking: Asking, loop: UserLoop, found: ToolInventory, *, may_ask: bool
) -> Sequence[Offering]:
    kind, tool = handler.kind, handler.tool
    assert kind is not None
    if problems := kind.problems(tool):
        found.problems += [f"tool {tool.name!r}: {problem}" for problem in problems]
        return ()
    if kind.asks(tool) and not may_ask:
        found.unasked.append(tool.name)
        return ()
    ended = await loop.end_of(
        partial(kind.offer, tool, asking), f"tools of {tool.name}", is_async=True
    )
    if ended.raised is not None:
        why = (
            str(ended.raised)
            if isinstance(ended.raised, ToolOfferError)
            else describe(ended.raised)
        )
        if isinstance(ended.raised, ToolUnavailable):
            found.unavailable[tool.name] = why
            return ()
        found.unknown.append(OfferProblem(tool.name, tool.kind, why))
        return ()
    offerings: Sequence[Offering] = ended.value
    # A server may list its functions in another order each time, and providers' caches begin with
    # the tools.
    return sorted(offerings, key=lambda offering: offering.name) if kind.asks_others else offerings


def _take_function(
    handler: Handler, found: ToolInventory, resources: Resources, deps: object
) -> None:
    tool, function = handler.tool, handler.function
    assert function is not None
    name = tool.offered_name(tool.name)
    if any(spec.name == name for spec in found.tools):
        found.problems.append(
            f"tool {tool.name!r}: another one is offered as {name!r}, too: {_ANOTHER_NAME}"
        )
    if tool.perdure and (tool.perdure.allowed_tools or tool.perdure.denied_tools):
        found.problems.append(
            f"tool {tool.name!r} is one function: allowedTools and deniedTools are for tools of "
            "many"
        )
    declared = getattr(function, "__tool_spec__", None) if handler.is_by_name else None
    spec = (declared or ToolSpec(name=tool.name)).model_copy(update={"name": name})
    if handler.is_by_name:
        shared = resources.parameters(function)
        spec.signature = recorded_signature(function, without=shared)
        full = completed_declaration(tool, function, without=shared)
        if name != tool.name:
            full = _by_other_name(full, name)
        if full is not tool:
            found.offered.append(full)
        if text := contradiction(tool, function, without=shared):
            found.problems.append(text)
        found.problems += _misfits(handler, deps)
    if note := _note(handler):
        found.notes.append(note)
    found.tools.append(with_policy(spec, tool.perdure, is_function=handler.is_by_name))


def _misfits(handler: Handler, deps: object) -> Iterator[str]:
    try:
        if handler.is_by_name and handler.function is not None:
            signature_of(handler.function).deps.of_json(deps)
    except UnfitDepsError as error:
        yield f"tool {handler.tool.name!r}: {error}"


_ANOTHER_NAME = "rename one of them, or give one a prefix (`perdure: {prefix: shop}`)"


def _by_other_name(tool: Tool, name: str) -> FunctionTool:
    """Return the declaration of a function that the model calls by another name."""
    fields = ("description", "parameters", "bindings", "perdure", "strict")
    return FunctionTool(
        name=name, of=tool.name, **{field: getattr(tool, field, None) for field in fields}
    )


def _chosen_names(tool: Tool, names: Sequence[str]) -> set[str]:
    """Return the names of the functions that the declaration lets the model have.

    Raises ToolOfferError for an unknown name in a filter.
    """
    policy = tool.perdure or ToolPolicy()
    for key, listed in (
        ("allowedTools", policy.allowed_tools),
        ("deniedTools", policy.denied_tools),
    ):
        for name in listed or ():
            if name not in names:
                hint, there = did_you_mean(name, names), ", ".join(names[:20]) or "none"
                raise ToolOfferError(
                    f"perdure.{key} names {name!r}, which it does not offer{hint}; there: {there}"
                )
    allowed = names if policy.allowed_tools is None else policy.allowed_tools
    return {name for name in allowed if name not in (policy.denied_tools or ())}


def _note(handler: Handler) -> str:
    """Return a note if a function replaces a tool of another kind (§9.2), or the model is not
    offered the tool; else "".
    """
    tool, function = handler.tool, handler.function
    if isinstance(tool, FunctionTool):
        return ""
    if handler.is_by_name and function is not None:
        return (
            f"The function {tool.name!r} of {place_of(function)} is called in place of the tool "
            f"{tool.name!r} (kind: {tool.kind}) that the file declares, because it is registered "
            "under that name"
        )
    if has_parameters(tool):
        return ""
    return (
        f"The model is not offered the tool {tool.name!r} (kind: {tool.kind}): its kind has a "
        "plain handler, which does not declare its arguments. Declare `parameters` in the file, or "
        "make the kind a ToolKind"
    )


def _take_offerings(
    handler: Handler, offerings: Sequence[Offering], found: ToolInventory, taken: set[str]
) -> None:
    try:
        chosen = (
            _chosen_names(handler.tool, [each.name for each in offerings]) if offerings else set()
        )
    except ToolOfferError as error:
        found.problems.append(f"tool {handler.tool.name!r}: {error}")
        return
    for offering in [each for each in offerings if each.name in chosen]:
        try:
            name = _free_name(handler.tool, offering.name, taken)
            function = _function(handler, name, offering)
        except ToolOfferError as error:
            found.unknown.append(OfferProblem(handler.tool.name, handler.tool.kind, str(error)))
            continue
        taken.add(name)
        found.offered.append(function)
        spec = _spec(name, offering)
        if handler.tool.kind == "builtin":
            spec.built_in = handler.tool.name
        spec = with_policy(spec, handler.tool.perdure, is_function=False)
        found.tools.append(
            spec if offering.takes_context else spec.model_copy(update={"context": 0})
        )


def _free_name(tool: Tool, name: str, taken: set[str]) -> str:
    """Return the function's name; if another tool already has it, prefixed with its own tool's
    name.
    """
    for candidate in (tool.offered_name(name), tool.offered_name(f"{tool.name}_{name}")):
        if not NAME.fullmatch(candidate):
            text = "expected letters, digits, '_' and '-', at most 64 characters"
            raise ToolOfferError(f"it offers a function {candidate!r:.100}: {text}")
        if candidate not in taken:
            return candidate
    raise ToolOfferError(
        f"it offers a function {name!r}, which another tool offers too: {_ANOTHER_NAME}"
    )


def _function(handler: Handler, name: str, offering: Offering) -> OfferedFunction:
    tool, bound = handler.tool, frozenset(handler.tool.bindings or ())
    try:
        schema, details = json_value(offering.parameters), json_value(offering.details)
    except LoadError as error:
        raise ToolOfferError(f"its function {name!r} has no JSON form: {error}") from error
    schema = closed_schema(schema) if handler.kind and handler.kind.closes_schemas else schema
    function = OfferedFunction(
        name=name,
        of=tool.name,
        description=offering.description,
        bindings=tool.bindings,
        schema_=without_properties(schema, bound),
        details=details,
    )
    size = len(function.model_dump_json())
    if size > MAX_SCHEMA_BYTES:
        raise ToolOfferError(
            f"its function {name!r} takes {size:,} bytes: at most {MAX_SCHEMA_BYTES:,} are possible"
        )
    return function


def _spec(name: str, offering: Offering) -> ToolSpec:
    return ToolSpec(
        name=name,
        timeout=offering.timeout,
        idempotent=offering.idempotent,
        safe_to_repeat=offering.safe_to_repeat,
        parallel_safe=offering.parallel_safe,
        needs_approval=offering.needs_approval,
        execution=offering.execution,
    )
