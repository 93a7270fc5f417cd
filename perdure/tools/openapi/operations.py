"""The operations of a specification as functions, and the choice of those that a tool offers
(`options`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...json_types import JsonView
from ...text import did_you_mean
from ..kind import Offering
from .arguments import Arguments, Located
from .document import Documents, SpecificationError, as_list, as_map, as_text
from .operation import Operation, Scheme
from .schemas import SchemaWriter
from .security import server_url

MAX_UNFILTERED = 64
"""Maximum number of operations offered without a filter."""
MAX_OPERATIONS = 128
"""Maximum number of operations offered with a filter: the limit of models."""
_FILTERS = ("operations", "tags", "exclude")
OPTIONS = (*_FILTERS, "variables")
_HOW = (
    'write `options: {operations: [getPet, "GET /pets"]}`, `options: {tags: [pets]}` or '
    "`options: {exclude: [deletePet]}` at the tool"
)


@dataclass(frozen=True)
class OperationNames:
    """The names of an operation for filters."""

    title: str
    """Such as `GET /pets`."""
    id: str
    """Its operationId; empty without one."""
    tags: Sequence[str]

    @property
    def names(self) -> set[str]:
        """Its operationId and its title."""
        return {self.title, self.id} - {""}


@dataclass(frozen=True)
class Selection:
    """A filter: operations by name or tag (all of them without either), less `exclude`."""

    operations: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    @classmethod
    def of(cls, options: JsonView) -> Selection:
        """Return the filter in valid `options`."""
        return cls(
            *(
                frozenset(_usual_spelling(each) for each in options.get(name) or ())
                for name in _FILTERS
            )
        )

    def apply(self, found: Sequence[OperationNames]) -> list[int]:
        """Return the indexes of the offered ones. Raises SpecificationError for an unknown name,
        and for too many or none.
        """
        names = sorted({name for each in found for name in each.names})
        tags = sorted({tag for each in found for tag in each.tags})
        for asked, known, what in (
            (self.operations | self.exclude, names, "operation"),
            (self.tags, tags, "operation with the tag"),
        ):
            for name in sorted(asked - set(known)):
                there = ", ".join(known[:20]) + (" …" if len(known) > 20 else "")
                hint = did_you_mean(name, known)
                raise SpecificationError(
                    f"the specification has no {what} {name!r}{hint}; there: {there or 'none'}"
                )
        chosen = [index for index, each in enumerate(found) if self._takes(each)]
        is_filtered = bool(self.operations or self.tags or self.exclude)
        limit = MAX_OPERATIONS if is_filtered else MAX_UNFILTERED
        if len(chosen) > limit:
            raise SpecificationError(
                f"{len(chosen)} operations are too many for a model, at most {limit}: {_HOW}"
            )
        if not chosen:
            raise SpecificationError(
                f"no operation is left to offer, of {len(found)} in the specification: {_HOW}"
            )
        return chosen

    def _takes(self, each: OperationNames) -> bool:
        if each.names & self.exclude:
            return False
        if not self.operations and not self.tags:
            return True
        return bool(each.names & self.operations or self.tags.intersection(each.tags))


def _usual_spelling(name: str) -> str:
    """Return `get /pets` as `GET /pets`."""
    method, blank, path = name.partition(" ")
    return f"{method.upper()} {path.strip()}" if blank and path.strip().startswith("/") else name


def option_problems(options: Any) -> Iterator[str]:
    """Yield the faults of the tool's `options`."""
    if options is None:
        return
    if not isinstance(options, Mapping):
        yield f"options must be a map, got {options!r:.60}"
        return
    for name, value in options.items():
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS)
            yield f"options.{name} means nothing here{hint}. Expected one of {', '.join(OPTIONS)}"
        elif name == "variables":
            if not (
                isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
            ):
                yield f"options.variables must be a map of strings, got {value!r:.60}"
        elif not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            yield f"options.{name} must be a list of strings, got {value!r:.60}"


METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_DESCRIPTION = 1024
MAX_OFFERED_BYTES = 900 * 1024
"""Limit for the schemas of all functions together."""


@dataclass(frozen=True)
class Found:
    """An operation in its document."""

    method: str
    path: str
    value: JsonView
    item: JsonView
    """The path item, with the settings common to its operations."""
    base: str
    """The URI of the document that has both."""

    @property
    def title(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def sent_path(self) -> str:
        """Return it without its fragment, with which a document distinguishes operations on one
        path.
        """
        return self.path.partition("#")[0]

    @property
    def filter_names(self) -> OperationNames:
        """Return its names for filters. Raises SpecificationError."""
        tags = [
            tag
            for tag in as_list(self.value.get("tags"), f"the tags of {self.title}")
            if isinstance(tag, str)
        ]
        return OperationNames(
            self.title,
            as_text(self.value.get("operationId"), f"the operationId of {self.title}"),
            tags,
        )


@dataclass(frozen=True)
class _Surroundings:
    """The common settings of a specification's operations."""

    documents: Documents
    variables: Mapping[str, str]
    source: str | None
    says_public: bool
    """Whether an operation without `security` needs no key, because another one has `security`."""


def offerings_of(
    documents: Documents, selection: Selection, variables: Mapping[str, str], source: str | None
) -> list[Offering]:
    """Return the functions of a specification, in its order; `source` is its URL, None for a file.

    Raises SpecificationError, which names the operation.
    """
    found = list(_operations(documents))
    says_public = any("security" in each.value for each in found)
    here = _Surroundings(documents, variables, source, says_public)
    offerings: list[Offering] = []
    size = 0
    for index in selection.apply([each.filter_names for each in found]):
        each = found[index]
        try:
            offering = _offering_of(each, here, {known.name for known in offerings})
        except SpecificationError as error:
            how = f'To do without it: `options: {{exclude: ["{each.title}"]}}`'
            raise SpecificationError(f"{each.title}: {error}. {how}") from None
        offerings.append(offering)
        size += len(json.dumps([offering.parameters, offering.details]))
        if size > MAX_OFFERED_BYTES:
            raise SpecificationError(
                "the operations have more than 900 KiB of schemas: offer fewer, by `options`"
            )
    return offerings


def _operations(documents: Documents) -> Iterator[Found]:
    for path, written in as_map(documents.root.get("paths"), "paths").items():
        item, base = documents.follow(written, documents.uri)
        item = as_map(item, f"the path {path!r}")
        for method in METHODS:
            if method in item:
                value = as_map(item[method], f"{method.upper()} {path}")
                yield Found(method.upper(), str(path), value, item, base)


def _offering_of(found: Found, here: _Surroundings, taken: set[str]) -> Offering:
    documents = here.documents
    _require_path(found.sent_path)
    security = _security(found, here)
    arguments = Arguments(SchemaWriter(documents))
    keys = frozenset(
        (key.place, key.name.lower())
        for each in security or ()
        for key in each
        if key.kind == "apiKey"
    )
    arguments.add_parameters(_parameters(found, documents), keys)
    if found.value.get("requestBody") is not None:
        body, base = documents.follow(found.value["requestBody"], found.base)
        arguments.add_body(as_map(body, "the request body"), base)
    _require_filled(
        found.sent_path, {each.name for each in arguments.parameters if each.place == "path"}
    )
    operation = Operation(
        method=found.method,
        path=found.sent_path,
        server=server_url(_server(found, documents), here.variables),
        source=here.source,
        parameters=arguments.parameters,
        body=arguments.body,
        security=security,
        accept=_accept(found, documents),
        key_header=arguments.key_header,
    )
    return Offering(
        name=_unused_name(found, taken),
        description=_description(found),
        parameters=arguments.schema(),
        details=operation.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        idempotent=operation.is_idempotent,
        safe_to_repeat=operation.is_idempotent,
    )


def _require_path(path: str) -> None:
    if not path.startswith("/") or re.search(r"[\s?\\\x00-\x1f\x7f]", path):
        raise SpecificationError(
            f"the path {path!r} can't be called: expected `/`, then no blank, `?` or `\\`"
        )
    if any(segment in (".", "..") for segment in path.split("/")):
        raise SpecificationError(
            f"the path {path!r} leads elsewhere: `.` and `..` are not followed"
        )


def _require_filled(path: str, names: set[str]) -> None:
    for name in re.findall(r"\{([^{}]*)\}", path):
        if name not in names:
            raise SpecificationError(f"the path has {{{name}}}, which no path parameter declares")


def _parameters(found: Found, documents: Documents) -> list[Located]:
    """Return the parameters of the path item and of the operation; the operation's override."""
    known: dict[tuple[Any, Any], Located] = {}
    for owner in (found.item, found.value):
        for written in as_list(owner.get("parameters"), "parameters"):
            value, base = documents.follow(written, found.base)
            value = as_map(value, "a parameter")
            known[str(value.get("in")), str(value.get("name"))] = value, base
    return list(known.values())


def _server(found: Found, documents: Documents) -> Any:
    for owner in (found.value, found.item, documents.root):
        if servers := as_list(owner.get("servers"), "servers"):
            return servers[0]
    return {"url": "/"}


def _security(found: Found, here: _Surroundings) -> list[list[Scheme]] | None:
    documents = here.documents
    components = as_map(documents.root.get("components"), "components")
    schemes = as_map(components.get("securitySchemes"), "securitySchemes")
    said = found.value.get("security", documents.root.get("security"))
    if said is None and here.says_public:
        return []
    if said is None:
        return [[_scheme(name, schemes, documents)] for name in schemes] or None
    alternatives = [as_map(each, "a security requirement") for each in as_list(said, "security")]
    return [[_scheme(name, schemes, documents) for name in each] for each in alternatives]


def _scheme(id: str, schemes: JsonView, documents: Documents) -> Scheme:
    value = as_map(
        documents.follow(schemes.get(id), documents.uri)[0], f"the security scheme {id!r}"
    )
    match (
        value.get("type"),
        str(value.get("scheme", "")).lower(),
        value.get("in"),
        value.get("name"),
    ):
        case "apiKey", _, ("header" | "query" | "cookie") as place, str(name):
            return Scheme(id=id, kind="apiKey", place=place, name=name)
        case "http", ("basic" | "bearer") as kind, _, _:
            return Scheme(id=id, kind=kind)
        case (("oauth2" | "openIdConnect"), _, _, _):
            return Scheme(id=id, kind="bearer")
    return Scheme(id=id, kind="unknown")


def _accept(found: Found, documents: Documents) -> str:
    """Return the media types of successful answers, JSON first."""
    media: dict[str, None] = {}
    for status, written in as_map(found.value.get("responses"), "responses").items():
        if str(status).startswith(("2", "default")):
            answer = as_map(documents.follow(written, found.base)[0], "a response")
            media |= dict.fromkeys(as_map(answer.get("content"), "a response's content"))
    fit = [each for each in media if re.fullmatch(r"[\w.+*-]+/[\w.+*-]+", each)]
    return (
        ", ".join([*sorted(fit, key=lambda each: "json" not in each)[:8], "*/*;q=0.1"])
        if fit
        else "*/*"
    )


def _unused_name(found: Found, taken: set[str]) -> str:
    """Return the operationId, or method and path, as models may write it: letters, digits, `_` and
    `-`, at most 64.
    """
    wanted = found.filter_names.id or found.title
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", wanted).strip("_")[:64] or "operation"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain[:60]}_{number}"
    return name


def _description(found: Found) -> str:
    said = [
        as_text(found.value.get(key), f"the {key} of {found.title}").strip()
        for key in ("summary", "description")
    ]
    texts = [each for index, each in enumerate(said) if each and each not in said[:index]]
    if found.value.get("deprecated") is True:
        texts.append("(Deprecated.)")
    text = "\n".join(texts) or found.title
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"
