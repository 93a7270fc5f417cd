"""Converts an asset of the first format to the present one, including JSON Schemas (digest §21)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ..arguments import Place, dotted_path
from ..errors import LoadError
from ..json_types import JsonObject, JsonView
from .shorthands import kind_named, kind_of


def tool_of(tool: Any) -> Any:
    """Return the declaration of a function, from OpenAI's form of it; anything else unchanged."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    declared = {key: function[key] for key in ("name", "description", "strict") if key in function}
    return {"kind": "function", **declared, "parameters": _members(function.get("parameters"))}


def described_properties(response_format: Any) -> list[JsonObject]:
    """Return the properties of the object that a `response_format` describes; [] if there is
    none.
    """
    described = response_format.get("json_schema") if isinstance(response_format, Mapping) else None
    schema = described.get("schema") if isinstance(described, Mapping) else None
    return _members(schema)


def _members(schema: Any) -> list[JsonObject]:
    members = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(members, Mapping):
        return []
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return [
        {"name": name, **_property(member), "required": name in names}
        for name, member in members.items()
    ]


def _property(schema: Any) -> JsonObject:
    if not isinstance(schema, Mapping):
        return {"kind": "string"}
    kind = schema.get("type")
    types = kind if isinstance(kind, list) else [kind]
    named = next((each for each in types if isinstance(each, str) and each != "null"), "string")
    described: JsonObject = {"kind": kind_named(named) or "string"}
    if "null" in types:
        described["nullable"] = True
    for key, name in (
        ("description", "description"),
        ("enum", "enumValues"),
        ("default", "default"),
    ):
        if key in schema:
            described[name] = schema[key]
    if isinstance(schema.get("items"), Mapping):
        described["items"] = _property(schema["items"])
    if members := _members(schema):
        described["properties"] = members
    return described


_PROVIDERS = {"azure_openai": "azure", "serverless": "openai"}
_CONNECTION = {
    "azure_endpoint": "endpoint",
    "endpoint": "endpoint",
    "base_url": "endpoint",
    "api_base": "endpoint",
    "api_key": "apiKey",
    "api_version": "apiVersion",
}
_NAMES_OF_MODELS = ("azure_deployment", "deployment", "deployment_name", "model", "name")
_OPTIONS = {
    "max_tokens": "maxOutputTokens",
    "top_p": "topP",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "stop": "stopSequences",
    "temperature": "temperature",
    "seed": "seed",
}
_AS_WRITTEN = (
    "name",
    "description",
    "default",
    "required",
    "title",
    "example",
    "items",
    "properties",
)
_PROPERTY = {
    **{name: name for name in _AS_WRITTEN},
    **dict.fromkeys(("enum", "enumvalues"), "enumValues"),
    **dict.fromkeys(("isrequired", "optional", "isoptional"), "required"),
    "type": "kind",
    "sample": "default",
    "ischatinput": "",
}
"""The meaning of a property's key, without capitals and `_`; "" for none."""
_TO_METADATA = ("authors", "tags", "version")


def refuse_promptflow(
    data: JsonView, fail: Callable[[LoadError, Place], object], *, has_other_model: bool
) -> None:
    """Report to `fail` the keys that have a meaning only in promptflow's dialect of the first
    format.
    """
    model = data.get("model")
    configuration = model.get("configuration") if isinstance(model, Mapping) else None
    name = configuration.get("connection") if isinstance(configuration, Mapping) else None
    if isinstance(name, str) and not has_other_model:
        text = (
            f"{name!r:.60} is a connection of promptflow, whose store of connections perdure can't "
            "read: write "
            "azure_endpoint and api_key (`${env:NAME}`), or `model.connection: {kind: reference, "
            "name: …}`, or name "
            "another model with the run (`--model`)"
        )
        fail(LoadError(text), ("model", "configuration", "connection"))
    inputs = data.get("inputs")
    for name, spec in inputs.items() if isinstance(inputs, Mapping) else ():
        if isinstance(spec, Mapping) and "is_chat_history" in spec:
            text = (
                "a key of promptflow, for its chat window: write `kind: thread`, and give its "
                "value with each run"
            )
            fail(LoadError(text), ("inputs", name, "is_chat_history"))


class Note(NamedTuple):
    """One conversion."""

    place: Place
    """Its place in the author's file."""
    text: str


class Migration:
    """The conversion of one asset from the first format to the present one. An asset of the present
    format stays unchanged.

    Values keep their identity, so that references remain references. A value in a shape that the
    first format does not have stays where it is.
    """

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._moved: dict[Place, Place] = {}

    def apply(self, data: JsonView) -> JsonObject:
        """Return the asset in the present format."""
        asset = dict(data)
        if isinstance(asset.get("model"), Mapping):
            asset["model"] = self._model(asset["model"], asset)
        for key, old in (("inputs", "inputSchema"), ("outputs", "outputSchema")):
            schema = asset.get(old)
            if asset.get(key) is None and isinstance(schema, Mapping) and "properties" in schema:
                asset[key] = asset.pop(old)["properties"]
                self._move((old, "properties"), (key,))
            asset[key] = self._properties(asset.get(key), key)
        if isinstance(asset.get("sample"), Mapping) and isinstance(
            asset.get("inputs"), Mapping | list | None
        ):
            asset["inputs"] = self._sample(asset.pop("sample"), asset.get("inputs"))
        self._metadata(asset)
        asset["template"] = self._template(asset.get("template"))
        return {key: value for key, value in asset.items() if value is not None or key in data}

    def written_path(self, place: Place) -> Place:
        """Return the author's place for a place in the migrated asset."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._moved:
                return (*self._moved[place[:end]], *place[end:])
        return place

    def _move(self, old: Place, new: Place, more: str = "") -> None:
        self._moved[new] = old
        self._note(old, f"is now `{dotted_path(new)}`{more}")

    def _note(self, old: Place, text: str) -> None:
        self.notes.append(
            Note(old, f"`{dotted_path(old)}` {text} (the first format of .prompty files)")
        )

    def _model(self, model: JsonView, asset: JsonObject) -> JsonObject:
        present = dict(model)
        if "api" in present:
            present.setdefault("apiType", present.pop("api"))
            self._move(("model", "api"), ("model", "apiType"))
        if isinstance(present.get("configuration"), Mapping):
            self._configuration(present.pop("configuration"), present)
        if isinstance(present.get("parameters"), Mapping):
            self._parameters(present.pop("parameters"), present, asset)
        if "response" in present and isinstance(asset.get("metadata"), Mapping | None):
            self._response(present.pop("response"), asset)
        return present

    def _configuration(self, configuration: JsonView, model: JsonObject) -> None:
        old: Place = ("model", "configuration")
        connection: JsonObject = {"kind": "key"}
        for key, value in configuration.items():
            if key == "type" and isinstance(value, str):
                provider = _PROVIDERS.get(value.lower().replace("-", "_"), value)
                model.setdefault("provider", provider)
                self._move(
                    (*old, key), ("model", "provider"), f": {provider}" if provider != value else ""
                )
            elif key == "connection" and isinstance(value, str):
                self._note((*old, key), "belongs to promptflow's store, and has no effect")
            elif key in _NAMES_OF_MODELS:
                model.setdefault("id", value)
                self._move((*old, key), ("model", "id"))
            else:
                name = _CONNECTION.get(key, key)
                connection.setdefault(name, value)
                self._move((*old, key), ("model", "connection", name))
        if "type" not in configuration and any(
            str(key).startswith("azure_") for key in configuration
        ):
            model.setdefault("provider", "azure")
        written = model.get("connection")
        model["connection"] = {**connection, **(written if isinstance(written, Mapping) else {})}

    def _parameters(self, parameters: JsonView, model: JsonObject, asset: JsonObject) -> None:
        old: Place = ("model", "parameters")
        options: JsonObject = {}
        others: JsonObject = {}
        for key, value in parameters.items():
            if key in _OPTIONS:
                options[_OPTIONS[key]] = (
                    [value] if key == "stop" and isinstance(value, str) else value
                )
                self._move((*old, key), ("model", "options", _OPTIONS[key]))
            elif not self._moves_up(key, value, asset):
                others[key] = value
                self._move((*old, key), ("model", "options", "additionalProperties", key))
        written = model.get("options")
        more = {"additionalProperties": others} if others else {}
        model["options"] = {**options, **more, **(written if isinstance(written, Mapping) else {})}

    def _moves_up(self, key: str, value: Any, asset: JsonObject) -> bool:
        """Return whether a parameter belongs to the whole agent: its tools, or the schema of its
        answers.
        """
        if key == "tools" and "tools" not in asset and isinstance(value, list):
            asset["tools"] = [tool_of(tool) for tool in value]
            self._move(("model", "parameters", key), ("tools",))
            return True
        if (
            key == "response_format"
            and "outputs" not in asset
            and (outputs := described_properties(value))
        ):
            asset["outputs"] = outputs
            self._move(("model", "parameters", key), ("outputs",))
            return True
        return False

    def _response(self, response: Any, asset: JsonObject) -> None:
        asset["metadata"] = {"response": response, **(asset.get("metadata") or {})}
        text = "has no counterpart and is kept as metadata: the first choice is the answer"
        if response != "first":
            text += "; the whole response is given by the run option `raw`, which a file can't set"
        self._note(("model", "response"), text)

    def _properties(self, value: Any, key: str) -> Any:
        if isinstance(value, Mapping):
            return {name: self._property(spec, (key, name)) for name, spec in value.items()}
        if isinstance(value, list):
            return [self._property(spec, (key, index)) for index, spec in enumerate(value)]
        return value

    def _property(self, spec: Any, place: Place) -> Any:
        if not _is_old_property(spec):
            return spec
        present: JsonObject = {}
        for key, value in spec.items():
            name = _PROPERTY[_spelling(key)]
            if not name:
                self._note((*place, key), "has no effect: give the value with each run")
                continue
            if name != key:
                self._move((*place, key), (*place, name))
            if name != "required":
                present.setdefault(name, _value(name, value, spec))
            elif isinstance(
                value, bool
            ):  # A list belongs to a schema: it names the object's members.
                present[name] = not value if "optional" in _spelling(key) else value
        return present

    def _sample(self, sample: JsonView, inputs: Any) -> Any:
        """Return the inputs with the sample's values as their defaults; undeclared ones are
        added.
        """
        declared = dict(enumerate(inputs) if isinstance(inputs, list) else inputs or {})
        keys = {
            spec.get("name") if isinstance(inputs, list) else key: key
            for key, spec in _maps(declared)
        }
        for name, value in sample.items():
            key = keys.get(name, len(declared) if isinstance(inputs, list) else name)
            if name in keys and "kind" in declared[key]:
                declared[key] = {"default": value, **declared[key]}
                self._move(("sample", name), ("inputs", key, "default"))
            elif declared.get(key) is None:
                named = {"name": name} if isinstance(inputs, list) else {}
                declared[key] = {**named, "kind": kind_of(value), "default": value}
                self._move(("sample", name), ("inputs", key), ", with the value as its default")
        return list(declared.values()) if isinstance(inputs, list) else declared

    def _metadata(self, asset: JsonObject) -> None:
        """Move the keys that the first format had at the top. They alone do not prove it: unknown
        keys are metadata (§2.2).
        """
        for key in _TO_METADATA if self.notes or isinstance(asset.get("template"), str) else ():
            if key in asset and isinstance(asset.get("metadata"), Mapping | None):
                asset["metadata"] = {key: asset.pop(key), **(asset.get("metadata") or {})}
                self._move((key,), ("metadata", key))

    def _template(self, template: Any) -> Any:
        """Return the template; a bare string is an error (§18-2), unless the rest of the asset is
        of the first format.
        """
        if isinstance(template, str) and self.notes:
            self._move(("template",), ("template", "format"))
            return {"format": template}
        if isinstance(template, Mapping) and "type" in template:
            self._move(("template", "type"), ("template", "format"))
            return dict(_rename(template, {"type": "format"}))
        return template


def _maps(values: Mapping[Any, Any]) -> list[tuple[Any, JsonView]]:
    return [(key, value) for key, value in values.items() if isinstance(value, Mapping)]


def _is_old_property(spec: Any) -> bool:
    """Return whether a map is a property of the first format, as opposed to the default of an
    object.
    """
    if not isinstance(spec, Mapping) or "kind" in spec:
        return False
    keys = {_spelling(key): value for key, value in spec.items()}
    return bool(
        keys.keys() & {"type", "sample"}
        and kind_named(keys.get("type", "string"))
        and keys.keys() <= {*_PROPERTY}
    )


def _spelling(key: Any) -> str:
    return str(key).lower().replace("_", "")


def _value(name: str, value: Any, spec: JsonView) -> Any:
    """Return the value of a property's key in the present format; a schema may describe its
    parts.
    """
    if name == "kind":
        return kind_named(value)
    if name == "items" and _is_schema(value):
        return _property(value)
    is_schema = (
        name == "properties" and isinstance(value, Mapping) and all(map(_is_schema, value.values()))
    )
    return _members({"properties": value, "required": spec.get("required")}) if is_schema else value


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping) and "kind" not in value and "type" in value


def _rename(value: JsonView, names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for key, child in value.items():
        if names.get(key, key) == key or names[key] not in value:
            yield names.get(key, key), child
