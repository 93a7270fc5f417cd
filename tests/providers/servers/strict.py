"""Strict fakes of model servers: one refuses what the real one is reported to refuse, and answers
as that one does.

A file of this package is one server: its docstring says what is reported, where and when; the
attributes of its class say the same as rules. What each rule means stands here, once for each wire
format.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from perdure.agents import Agent
from perdure.json_types import JsonObject

Json = JsonObject
MARK = re.compile(r"private of (\S+) (\d+)")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
AT_ROOT = {"anyOf", "oneOf", "allOf", "$ref", "enum", "not"}


@dataclass(frozen=True)
class Given:
    """One reply of a fake."""

    ids: tuple[str, ...]
    mark: str
    """What only this server understands of it; "" for nothing."""


class StrictServer(ABC):
    """One service. An instance is one account: it knows what it has answered, and wants to see it
    again.
    """

    api: ClassVar[tuple[str, str]]
    """Provider and API type of an agent that calls it."""
    endpoint: ClassVar[str] = ""
    """Where the real service is; "" for a server of one's own."""
    dialect: ClassVar[str] = ""
    """The row of the table, where no endpoint says it."""
    ids: ClassVar[str] = "call_{n:024d}"
    """The ids that it gives: `n` counts its calls, `i` those of one reply, `name` is the tool's."""
    takes: ClassVar[str] = "[a-zA-Z0-9_-]{1,64}"
    """The ids of other servers that it takes."""
    wants_back: ClassVar[Literal["all", "calls", "never"]] = "all"
    """Of which replies it wants its private fields back: those that ask for tools, all, or none."""
    refuses: ClassVar[tuple[str, ...]] = ()
    """Keys that it refuses in every request."""
    model_refuses: ClassVar[Mapping[str, str]] = {}
    """Keys that its model refuses, as only its answer says, and the words of it."""
    error_form: ClassVar[tuple[int, Any]]
    """The status and the body with which it refuses a request; `{text}` stands for what it says."""
    sees: ClassVar[bool] = True
    begins_with_user: ClassVar[bool] = False

    def __init__(self) -> None:
        self.given: list[Given] = []
        self._calls = 0
        self._offered: list[str] = []

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def agent(self, endpoint: str = "", **fields: Any) -> Agent:
        """Return an agent whose model is the service, or this fake at `endpoint`."""
        at = endpoint or self.endpoint or f"http://{self.name}.internal/v1"
        return Agent.model_validate(
            {"name": "mover", "model": self.model(at, named=bool(endpoint)), **fields}
        )

    def model(self, endpoint: str, *, named: bool = True) -> Json:
        """Return the model as a file has it; `named` says that the endpoint does not tell which
        service it is.
        """
        dialect = self.dialect or (self.table_name if named and self.endpoint else "")
        options = {
            "temperature": 0.5,
            "seed": 7,
            "maxOutputTokens": 100,
            "frequencyPenalty": 0.5,
            "presencePenalty": 0.5,
        }
        provider, api_type = self.api
        connection = {"kind": "key", "endpoint": endpoint, "apiKey": "sk-test"}
        more = {"dialect": dialect} if dialect else {}
        model = {"id": self.name, "provider": provider, "apiType": api_type}
        return {**model, "connection": connection, "options": {**options, **more}}

    @property
    def table_name(self) -> str:
        return self.name

    def reply(self, calls: Sequence[tuple[str, str]], text: str = "") -> Json:
        """Return the response that asks for the calls `(name, arguments)`, and remember it."""
        ids = []
        for index, (name, _) in enumerate(calls):
            ids.append(self.ids.format(n=self._calls, i=index, name=name))
            self._calls += 1
        mark = f"private of {self.name} {len(self.given)}"
        response = self.response(list(zip(ids, calls, strict=True)), text, mark)
        self.given.append(Given(tuple(ids), mark if mark in json.dumps(response) else ""))
        return response

    @abstractmethod
    def response(self, calls: list[tuple[str, tuple[str, str]]], text: str, mark: str) -> Json:
        """Return the body of an answer."""

    @abstractmethod
    def declined(self) -> Json:
        """Return the body of a reply in which the model, or a filter, refuses to answer."""

    def refusal(self, text: str, status: int = 0) -> tuple[int, Any]:
        """Return the status and the body of an error that says so, in the service's own form."""
        own_status, form = self.error_form
        return status or own_status, json.loads(
            json.dumps(form).replace("{text}", json.dumps(text)[1:-1])
        )

    @abstractmethod
    def events(self, response: Json) -> list[Json]:
        """Return the same answer as the events of a stream."""

    def problems(self, body: Json) -> list[str]:
        """Return what the server refuses of a request."""
        return [
            *(f"{key} is refused" for key in self.refuses if key in body),
            *self.conversation_problems(body),
            *self._private_problems(body),
            *self._id_problems(body),
            *self._tool_problems(self.tools(body)),
        ]

    @abstractmethod
    def conversation_problems(self, body: Json) -> Iterable[str]:
        """Yield what is wrong with the messages."""

    @abstractmethod
    def ids_in(self, body: Json) -> list[str]:
        """Return the ids of all calls in the request, in order."""

    def tools(self, body: Json) -> list[Json]:
        """Return the declared functions, each with `name` and its schema as `parameters`."""
        return [tool.get("function", tool) for tool in body.get("tools", [])]

    def offered(self, body: Json) -> list[str]:
        """Return the names of the tools that the request offers."""
        return [tool["name"] for tool in self.tools(body)]

    def _private_problems(self, body: Json) -> Iterable[str]:
        found = {f"private of {name} {number}" for name, number in MARK.findall(json.dumps(body))}
        wanted = {
            given.mark
            for given in self.given
            if given.mark
            and (self.wants_back == "all" or (self.wants_back == "calls" and given.ids))
        }
        yield from (f"the field {mark!r} is missing" for mark in sorted(wanted - found))
        yield from (f"the field {mark!r} is not known here" for mark in sorted(found - wanted))

    def _id_problems(self, body: Json) -> Iterable[str]:
        ids = self.ids_in(body)
        own = [id for given in self.given for id in given.ids]
        yield from (f"the id {id!r} occurs twice" for id in {*ids} if ids.count(id) > 1)
        yield from (
            f"the id {id!r} is not taken"
            for id in {*ids} - {*own}
            if not re.fullmatch(self.takes, id)
        )
        once = (id for id in {*own} if id and own.count(id) == 1)
        yield from (f"the own id {id!r} is not there" for id in {*once} - {*ids})

    def _tool_problems(self, tools: list[Json]) -> Iterable[str]:
        names = [tool["name"] for tool in tools]
        yield from (f"the name {name!r} is not taken" for name in names if not NAME.fullmatch(name))
        if len({*names}) < len(names):
            yield "two tools have one name"
        for tool in tools:
            schema = tool.get("parameters", tool.get("input_schema", {}))
            if schema.get("type") != "object" or AT_ROOT & schema.keys():
                yield f"the schema of {tool['name']!r} is not an object's"


def as_object(arguments: Any) -> bool:
    """Return whether a text is the JSON of an object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (TypeError, ValueError):
        return False


def filled(template: Any, mark: str) -> Any:
    """Return the fields with `{mark}` in their texts replaced."""
    return json.loads(json.dumps(template).replace("{mark}", mark))
