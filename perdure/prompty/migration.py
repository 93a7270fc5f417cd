"""Converts an asset of the first format to the present one, including JSON Schemas (digest §21)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..arguments import Place, dotted_path
from ..json_types import JsonObject, JsonView
from .shorthands import kind_named, kind_of

_PROVIDERS = {"azure_openai": "azure", "serverless": "openai"}
_MODELS = ("azure_deployment", "deployment", "deployment_name", "model", "name")
_CONFIGURATION: Mapping[str, Place] = {
    **dict.fromkeys(_MODELS, ("id",)),
    **dict.fromkeys(
        ("azure_endpoint", "endpoint", "base_url", "api_base"), ("connection", "endpoint")
    ),
    "api_key": ("connection", "apiKey"),
    "api_version": ("connection", "apiVersion"),
}
"""A key of `model.configuration` → its place in the model; other keys belong to the connection."""
_OPTIONS = {
    "max_tokens": "maxOutputTokens",
    "top_p": "topP",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "stop": "stopSequences",
    "temperature": "temperature",
    "seed": "seed",
}
_PROPERTY = {
    "name": "name",
    "description": "description",
    "default": "default",
    "required": "required",
    "title": "title",
    "example": "example",
    "items": "items",
    "properties": "properties",
    **dict.fromkeys(("enum", "enumvalues"), "enumValues"),
    **dict.fromkeys(("isrequired", "optional", "isoptional"), "required"),
    "type": "kind",
    "sample": "default",
    "ischatinput": "",
    "ischathistory": "",
}
"""The meaning of a property's key, without capitals and `_`; "" for none."""


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
        self._asset: JsonObject = {}

    def apply(self, asset: JsonObject) -> JsonObject:
        """Return the asset in the present format, with changes in place."""
        self._asset = asset
        if isinstance(asset.get("model"), dict):
            self._model(asset["model"])
        for key, old in (("inputs", "inputSchema"), ("outputs", "outputSchema")):
            schema = asset.get(old)
            if asset.get(key) is None and isinstance(schema, dict) and "properties" in schema:
                self._move((old, "properties"), (key,), schema["properties"])
                del asset[old]
            if asset.get(key) is not None:
                asset[key] = self._properties(asset[key], key)
        if isinstance(asset.get("sample"), dict):
            self._sample(asset.pop("sample"))
        if self.notes or isinstance(asset.get("template"), str):
            # Alone, unknown keys at the top are metadata (§2.2).
            for key in ("authors", "tags", "version"):
                if key in asset:
                    self._move((key,), ("metadata", key), asset.pop(key))
        self._template(asset.get("template"))
        return asset

    def written_path(self, place: Place) -> Place:
        """Return the author's place for a place in the migrated asset."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._moved:
                return (*self._moved[place[:end]], *place[end:])
        return place

    def _move(self, old: Place, new: Place, value: Any, more: str = "") -> None:
        """Note that the value is now at the new place, and write it there unless there is one."""
        holder: Any = self._asset
        for step in new[:-1]:
            if not isinstance(holder.get(step), dict):
                holder[step] = {}
            holder = holder[step]
        if holder.get(new[-1]) is None:
            holder[new[-1]] = value
        self._rename(old, new, more)

    def _rename(self, old: Place, new: Place, more: str = "") -> None:
        self._moved[new] = old
        self._note(old, f"is now `{dotted_path(new)}`{more}")

    def _note(self, old: Place, text: str) -> None:
        self.notes.append(
            Note(old, f"`{dotted_path(old)}` {text} (the first format of .prompty files)")
        )

    def _model(self, model: JsonObject) -> None:
        if "api" in model:
            self._move(("model", "api"), ("model", "apiType"), model.pop("api"))
        if isinstance(model.get("configuration"), dict):
            self._configuration(model, model.pop("configuration"))
        if isinstance(model.get("parameters"), dict):
            for key, value in model.pop("parameters").items():
                self._parameter(key, value)
        if "response" in model:
            self._response(model.pop("response"))

    def _configuration(self, model: JsonObject, configuration: JsonObject) -> None:
        for key, value in configuration.items():
            old = ("model", "configuration", key)
            if key == "type" and isinstance(value, str):
                provider = _PROVIDERS.get(value.lower().replace("-", "_"), value)
                more = f": {provider}" if provider != value else ""
                self._move(old, ("model", "provider"), provider, more)
            elif key == "connection" and isinstance(value, str):
                self._note(old, "names a connection in promptflow's store, and has no effect")
            else:
                new = _CONFIGURATION.get(key, ("connection", key))
                self._move(old, ("model", *new), value)
        if any(str(key).startswith("azure_") for key in configuration):
            model.setdefault("provider", "azure")
        model["connection"] = {"kind": "key", **(model.get("connection") or {})}

    def _parameter(self, key: str, value: Any) -> None:
        """Move a parameter to the options, or to the whole agent: tools, and the schema of its
        answers.
        """
        new: Place = ("model", "options", "additionalProperties", key)
        if key in _OPTIONS:
            new = ("model", "options", _OPTIONS[key])
            value = [value] if key == "stop" and isinstance(value, str) else value
        elif key == "tools" and "tools" not in self._asset and isinstance(value, list):
            new, value = ("tools",), [_tool(each) for each in value]
        elif key == "response_format" and "outputs" not in self._asset:
            outputs = _members(_in(value, "json_schema", "schema"))
            new, value = (("outputs",), outputs) if outputs else (new, value)
        self._move(("model", "parameters", key), new, value)

    def _response(self, response: Any) -> None:
        text = "has no counterpart and is kept as metadata: the first choice is the answer"
        if response != "first":
            text += "; the whole response is given by the run option `raw`, which a file can't set"
        metadata = self._asset.get("metadata")
        if isinstance(metadata, dict | None):
            self._asset["metadata"] = {"response": response, **(metadata or {})}
        self._note(("model", "response"), text)

    def _properties(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
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
            if name not in (key, ""):
                self._rename((*place, key), (*place, name))
            if not name:
                self._note((*place, key), "has no effect: give the value with each run")
            elif name != "required":
                present.setdefault(name, _value(name, value, spec))
            elif isinstance(value, bool):  # A list names the required members of an object.
                present[name] = value != ("optional" in _spelling(key))
        return present

    def _sample(self, sample: JsonView) -> None:
        """Make the sample's values the defaults of the inputs; declare those that are not."""
        if self._asset.get("inputs") is None:
            self._asset["inputs"] = {}
        inputs = self._asset["inputs"]
        if not isinstance(inputs, dict | list):
            return
        pairs = list(enumerate(inputs) if isinstance(inputs, list) else inputs.items())
        known = {
            spec.get("name") if isinstance(inputs, list) else key: (key, spec)
            for key, spec in pairs
            if isinstance(spec, dict)
        }
        for name, value in sample.items():
            key, spec = known.get(name, (len(inputs) if isinstance(inputs, list) else name, None))
            if spec is not None and "kind" in spec:
                spec.setdefault("default", value)
                self._rename(("sample", name), ("inputs", key, "default"))
            elif spec is None and not (isinstance(inputs, dict) and inputs.get(name) is not None):
                declared = {"kind": kind_of(value), "default": value}
                if isinstance(inputs, list):
                    inputs.append({"name": name, **declared})
                else:
                    inputs[name] = declared
                more = ", with the value as its default"
                self._rename(("sample", name), ("inputs", key), more)

    def _template(self, template: Any) -> None:
        """Move the template's format; a bare string is an error (§18-2), unless the rest of the
        asset is of the first format.
        """
        if isinstance(template, str) and self.notes:
            self._asset["template"] = {"format": template}
            self._rename(("template",), ("template", "format"))
        elif isinstance(template, dict) and "type" in template:
            self._move(("template", "type"), ("template", "format"), template.pop("type"))


def _is_old_property(spec: Any) -> bool:
    """Return whether a map is a property of the first format, as opposed to the default of an
    object.
    """
    if not isinstance(spec, dict) or "kind" in spec:
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
        return _property_of(value)
    is_schema = name == "properties" and isinstance(value, dict)
    if is_schema and all(map(_is_schema, value.values())):
        return _members({"properties": value, "required": spec.get("required")})
    return value


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and "kind" not in value and "type" in value


def _tool(tool: Any) -> Any:
    """Return the declaration of a function, from OpenAI's form of it; anything else unchanged."""
    function = _in(tool, "function")
    if not isinstance(function, dict):
        return tool
    declared = {key: function[key] for key in ("name", "description", "strict") if key in function}
    return {"kind": "function", **declared, "parameters": _members(function.get("parameters"))}


def _in(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _members(schema: Any) -> list[JsonObject]:
    """Return the properties of the object that a JSON Schema describes; [] for any other value."""
    members, required = _in(schema, "properties"), _in(schema, "required")
    names = required if isinstance(required, list) else []
    return [
        {"name": name, **_property_of(member), "required": name in names}
        for name, member in (members.items() if isinstance(members, dict) else ())
    ]


def _property_of(schema: Any) -> JsonObject:
    schema = schema if isinstance(schema, dict) else {}
    kind = schema.get("type")
    types = kind if isinstance(kind, list) else [kind]
    named = next((each for each in types if isinstance(each, str) and each != "null"), "string")
    written: JsonObject = {"kind": kind_named(named) or "string"}
    if "null" in types:
        written["nullable"] = True
    for key in ("description", "enum", "default"):
        if key in schema:
            written[_PROPERTY[key]] = schema[key]
    if isinstance(schema.get("items"), dict):
        written["items"] = _property_of(schema["items"])
    if members := _members(schema):
        written["properties"] = members
    return written
