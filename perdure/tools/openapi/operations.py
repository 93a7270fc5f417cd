"""The operations of a specification as functions, and the choice of those that a tool offers
(`options`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from pydantic import BaseModel

from ...json_types import JsonView
from ...redaction import get_logger
from ...text import did_you_mean
from ..kind import Offering
from .arguments import Arguments, UnwritableBody
from .document import (
    Document,
    OperationNames,
    OperationObject,
    ParameterObject,
    PathItem,
    RequestBody,
    SecurityScheme,
    ServerObject,
    SpecificationError,
)
from .operation import IDEMPOTENT, Operation, Scheme

MAX_UNFILTERED = 64
"""Maximum number of operations offered without a filter."""
MAX_OPERATIONS = 128
"""Maximum number of operations offered with a filter: the limit of models."""
_HOW = (
    'write `options: {operations: [getPet, "GET /pets"]}`, `options: {tags: [pets]}` or '
    "`options: {exclude: [deletePet]}` at the tool"
)
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_DESCRIPTION = 1024
_log = get_logger("perdure.tools")


class Options(BaseModel):
    """The `options` of a declaration: operations by name or tag, and those to leave out."""

    operations: list[str] = []
    tags: list[str] = []
    exclude: list[str] = []


class Found(NamedTuple):
    """An operation in its document."""

    method: str
    path: str
    value: Any
    item: PathItem
    """The path item, with the settings common to its operations."""
    id: str
    """Its operationId; empty without one."""
    tags: Set[str]

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
    def names(self) -> set[str]:
        """Its names for filters: its operationId and its title."""
        return {self.title, self.id} - {""}


def offerings_of(document: Document, options: JsonView, source: str | None) -> list[Offering]:
    """Return the functions of a specification, in its order; `source` is its URL, None for a file.

    Raises SpecificationError, which names the operation.
    """
    found = list(_operations(document))
    offerings: list[Offering] = []
    # If some operations have a security, one without needs no key.
    says_public = any(
        isinstance(each.value, Mapping) and "security" in each.value for each in found
    )
    for each in _chosen(found, options):
        try:
            offering = _offering_of(
                each, document, source, {known.name for known in offerings}, says_public=says_public
            )
        except UnwritableBody as error:
            if each.names & {_usual_spelling(name) for name in options.get("operations") or ()}:
                raise SpecificationError(f"{each.title}: {error}") from None
            _log.info("The operation %s is not offered: %s", each.title, error)
            continue
        except SpecificationError as error:
            how = f'To do without it: `options: {{exclude: ["{each.title}"]}}`'
            raise SpecificationError(f"{each.title}: {error}. {how}") from None
        offerings.append(offering)
    if not offerings:
        raise SpecificationError(
            f"no operation is left to offer, of {len(found)} in the specification: {_HOW}"
        )
    return offerings


def _operations(document: Document) -> Iterator[Found]:
    for path, written in document.root.paths.items():
        content = document.follow(written) or {}
        item = document.read(PathItem, content, f"the path {path!r}")
        for method in METHODS:
            if content.get(method) is not None:
                value, title = content[method], f"{method.upper()} {path}"
                names = document.read(OperationNames, value, title)
                tags = frozenset(names.tags)
                yield Found(method.upper(), str(path), value, item, names.operation_id, tags)


def _chosen(found: Sequence[Found], options: JsonView) -> list[Found]:
    """Return the operations by name or tag (all of them without either), less `exclude`.

    Raises SpecificationError for an unknown name, and for too many.
    """
    wanted, tags, excluded = (
        {_usual_spelling(each) for each in options.get(name) or ()} for name in Options.model_fields
    )
    _require_known(wanted | excluded, {name for each in found for name in each.names}, "operation")
    _require_known(tags, {tag for each in found for tag in each.tags}, "operation with the tag")
    chosen = [
        each
        for each in found
        if not each.names & excluded
        and (each.names & wanted or each.tags & tags or not (wanted or tags))
    ]
    limit = MAX_OPERATIONS if wanted or tags or excluded else MAX_UNFILTERED
    if len(chosen) > limit:
        raise SpecificationError(
            f"{len(chosen)} operations are too many for a model, at most {limit}: {_HOW}"
        )
    return chosen


def _require_known(asked: Set[str], known: Set[str], what: str) -> None:
    for name in sorted(asked - known):
        there = sorted(known)
        listed = ", ".join(there[:20]) + (" …" if len(there) > 20 else "")
        raise SpecificationError(
            f"the specification has no {what} {name!r}{did_you_mean(name, there)}; there: "
            f"{listed or 'none'}"
        )


def _usual_spelling(name: str) -> str:
    """Return `get /pets` as `GET /pets`."""
    method, blank, path = name.partition(" ")
    return f"{method.upper()} {path.strip()}" if blank and path.strip().startswith("/") else name


def _offering_of(
    found: Found, document: Document, source: str | None, taken: set[str], *, says_public: bool
) -> Offering:
    operation = document.read(OperationObject, found.value, "the operation")
    _require_path(found.sent_path)
    security = _security(operation, document, says_public=says_public)
    keys = [key for each in security or () for key in each if key.kind == "apiKey"]
    arguments = Arguments(document)
    arguments.add_parameters(
        _parameters(found.item, operation, document),
        frozenset((key.place, key.name.lower()) for key in keys),
    )
    if operation.request_body is not None:
        arguments.add_body(document.read(RequestBody, operation.request_body, "requestBody"))
    declared = {each.name for each in arguments.parameters if each.place == "path"}
    for name in re.findall(r"\{([^{}]*)\}", found.sent_path):
        if name not in declared:
            raise SpecificationError(f"the path has {{{name}}}, which no path parameter declares")
    servers = operation.servers or found.item.servers or document.root.servers or [ServerObject()]
    sent = Operation(
        method=found.method,
        path=found.sent_path,
        server=_server_url(servers[0]),
        source=source,
        parameters=arguments.parameters,
        body=arguments.body,
        security=security,
        key_header=arguments.key_header,
    )
    is_idempotent = found.method in IDEMPOTENT
    return Offering(
        name=_unused_name(found, taken),
        description=_description(found, operation),
        parameters=arguments.schema(),
        details=sent.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        idempotent=is_idempotent,
        safe_to_repeat=is_idempotent,
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


def _parameters(
    item: PathItem, operation: OperationObject, document: Document
) -> list[ParameterObject]:
    """Return the parameters of the path item and of the operation; the operation's override."""
    known: dict[tuple[str, str], ParameterObject] = {}
    for written in [*item.parameters, *operation.parameters]:
        each = document.read(ParameterObject, written, "a parameter")
        known[each.place, each.name] = each
    return list(known.values())


def _server_url(server: ServerObject) -> str:
    """Return the URL of a server, with the defaults of its variables. Raises SpecificationError."""

    def value(match: re.Match[str]) -> str:
        variable = server.variables.get(match[1])
        if variable is None or variable.default is None:
            raise SpecificationError(
                f"the server variable {match[1]!r} has no default: write connection.endpoint"
            )
        return variable.default

    return re.sub(r"\{([^{}]*)\}", value, server.url)


def _security(
    operation: OperationObject, document: Document, *, says_public: bool
) -> list[list[Scheme]] | None:
    schemes = document.root.components.security_schemes
    said = document.root.security if operation.security is None else operation.security
    if said is None and says_public:
        return []
    if said is None:
        return [[_scheme(name, schemes, document)] for name in schemes] or None
    return [[_scheme(name, schemes, document) for name in each] for each in said]


def _scheme(id: str, schemes: Mapping[str, Any], document: Document) -> Scheme:
    value = document.read(SecurityScheme, schemes.get(id, {}), f"the security scheme {id!r}")
    match value.type, value.scheme.lower(), value.place:
        case "apiKey", _, ("header" | "query") as place if value.name:
            return Scheme(id=id, kind="apiKey", place=place, name=value.name)
        case "http", ("basic" | "bearer") as kind, _:
            return Scheme(id=id, kind=kind)
        case (("oauth2" | "openIdConnect"), _, _):
            return Scheme(id=id, kind="bearer")
    return Scheme(id=id, kind="unknown")


def _unused_name(found: Found, taken: set[str]) -> str:
    """Return the operationId, or method and path, as models may write it: letters, digits, `_` and
    `-`, at most 64.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", found.id or found.title).strip("_")[:64] or "operation"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain[:60]}_{number}"
    return name


def _description(found: Found, operation: OperationObject) -> str:
    said = dict.fromkeys([operation.summary.strip(), operation.description.strip()])
    texts = [*filter(None, said), *(["(Deprecated.)"] if operation.deprecated else [])]
    text = "\n".join(texts) or found.title
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"
