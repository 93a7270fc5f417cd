"""Writes docs/reference/api.md, the reference of the Python API, from signatures and docstrings: `make docs`.
A test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import griffe

FILE = Path(__file__).resolve().with_name("reference") / "api.md"
ROOMS = (
    "perdure",
    "perdure.client",
    "perdure.worker",
    "perdure.tools",
    "perdure.testing",
    "perdure.providers",
)
INTRODUCTION = """\
# Which names does Python have?

Every public name, with its signature and what its docstring says; this page is written from the source (`make docs`).
[From Python](../guides/python.md) shows them in use. What begins with an underscore, or is imported from a module that is not
named here, may change without notice.
"""


def page() -> str:
    """The whole page, as it should be."""
    package = griffe.load("perdure", search_paths=[str(FILE.parents[2])])
    shown: dict[str, str] = {}
    lines = [INTRODUCTION, *(line for room in ROOMS for line in _room(package, room, shown))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _room(package: griffe.Object | griffe.Alias, room: str, shown: dict[str, str]) -> Iterator[str]:
    """A module's section; a name that an earlier room has is mentioned there."""
    module = package[room.partition(".")[2]] if "." in room else package
    yield f"## {room}\n\n{_text(module)}\n"
    names = sorted(_public_names(module), key=lambda name: (not name[0].isupper(), name.lower()))
    found = {name: _target(module[name]) for name in names}
    if repeated := [name for name, each in found.items() if each.path in shown]:
        yield (
            "Also here: "
            + ", ".join(f"[`{name}`](#{_anchor(shown[found[name].path])})" for name in repeated)
            + ".\n"
        )
    for name, each in found.items():
        if each.path not in shown:
            shown[each.path] = name
            yield from _entry(name, each)


def _public_names(module: griffe.Object | griffe.Alias) -> list[str]:
    """Those that the module imports for others, under their own names, or lists in `__all__`."""
    if module.exports:
        return [str(name) for name in module.exports]
    return [
        name
        for name, member in module.members.items()
        if member.is_alias and not _is_private(name, member)
    ]


def _is_private(name: str, member: griffe.Object | griffe.Alias) -> bool:
    return (
        name.startswith("_")
        or name == "lazy_names"
        or not getattr(member, "target_path", "").startswith("perdure.")
    )


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _entry(name: str, each: griffe.Object) -> Iterator[str]:
    yield f"### {name}\n"
    if isinstance(each, griffe.Class):
        yield from _class(name, each)
    elif isinstance(each, griffe.Function):
        yield from _function(name, each)
    elif calls := _calls(each):
        signatures = "\n".join(_signature(name, one) for one in calls)
        yield f"```python\n{signatures}\n```\n\n{_text(each)}\n"
    else:
        yield f"```python\n{name} = {getattr(each, 'value', '…')}\n```\n\n{_text(each)}\n"


def _calls(each: griffe.Object) -> list[griffe.Function]:
    """How a value is called that is cast to a Protocol."""
    value = getattr(each, "value", None)
    if not isinstance(value, griffe.ExprCall) or str(value.function) != "cast":
        return []
    kind = _target(each.modules_collection[value.arguments[0].canonical_path])
    return list(kind.overloads.get("__call__", ())) if isinstance(kind, griffe.Class) else []


def _class(name: str, each: griffe.Class) -> Iterator[str]:
    bases = [
        base
        for base in map(str, each.bases)
        if base not in ("BaseModel", "ABC", "Node", "Protocol")
    ]
    derived = f"({', '.join(bases)})" if bases else ""
    start = each.members.get("__init__")
    made = (
        f"\n\n{_signature(name, start)}"
        if isinstance(start, griffe.Function) and start.docstring
        else ""
    )
    yield f"```python\nclass {name}{derived}{made}\n```\n\n{_text(each)}\n"
    members = {**_inherited(each), **each.members}
    public = [(key, _target(member)) for key, member in members.items() if not key.startswith("_")]
    if fields := [f"- {_field(key, member)}" for key, member in public if _is_field(key, member)]:
        yield "\n".join(fields) + "\n"
    for key, member in public:
        if isinstance(member, griffe.Function):
            yield f"**{name}.{key}**\n"
            yield from _function(key, member)


def _is_field(name: str, member: griffe.Object) -> bool:
    """Whether a reader of the page uses it: what has a type or a text, and is no setting of
    pydantic's.
    """
    return (
        isinstance(member, griffe.Attribute)
        and name != "model_config"
        and bool(member.annotation or _text(member))
    )


def _inherited(each: griffe.Class) -> dict[str, griffe.Object | griffe.Alias]:
    """Members of perdure's own base classes."""
    ours = [base for base in reversed(each.mro()) if base.path.startswith("perdure.")]
    return {name: member for base in ours for name, member in base.members.items()}


def _field(name: str, field: griffe.Attribute) -> str:
    annotation = f": {field.annotation}" if field.annotation else ""
    if "property" in field.labels:
        annotation += ", read only"
    default = _default(field)
    return " ".join(f"`{name}{_plain(annotation)}`{default}: {_text(field)}".split()).removesuffix(
        ":"
    )


def _plain(annotation: str) -> str:
    """Return an annotation without the short names that the source has for JSON."""
    return annotation.replace("JsonObject", "dict[str, Any]").replace(
        "JsonView", "Mapping[str, Any]"
    )


def _default(field: griffe.Attribute) -> str:
    if field.value is None or "class-attribute" not in field.labels:
        return ""
    value = str(field.value).replace("unless_none()", "None")
    value = re.sub(r"^unless_empty\((.*)\)$", r"\1", value)
    if value.startswith("Field("):
        given = re.search(r"default=([^,)]+|\([^)]*\))", value)
        value = given[1] if given else ""
    return f" = `{value}`" if value else ""


def _function(name: str, function: griffe.Function) -> Iterator[str]:
    overloads = function.overloads or [function]
    signatures = "\n".join(_signature(name, each) for each in overloads)
    yield f"```python\n{signatures}\n```\n\n{_text(function)}\n"
    yield from _unpacked(function)


def _unpacked(function: griffe.Function) -> Iterator[str]:
    """The keyword arguments that a TypedDict lists, with their texts."""
    for parameter in function.parameters:
        if str(parameter.annotation).startswith("Unpack["):
            listed = function.modules_collection[parameter.annotation.slice.canonical_path]
            members = {**_inherited(listed), **listed.members}
            yield f"`**{parameter.name}`, each of them optional:\n"
            yield (
                "\n".join(
                    f"- {_field(key, each)}"
                    for key, each in members.items()
                    if _is_field(key, each)
                )
                + "\n"
            )


def _signature(name: str, function: griffe.Function) -> str:
    word = "async def " if "async" in function.labels else "def "
    if function.name == "__init__":
        word, function.returns = "", None
    text = (
        str(function.signature(name=name))
        .replace("(self, ", "(")
        .replace("(self)", "()")
        .replace("(cls, ", "(")
    )
    line = _plain(f"{word}{text}")
    if len(line) <= 116:
        return line
    head, _, rest = line.partition("(")
    inside, _, result = rest.rpartition(")") if " -> " not in rest else rest.rpartition(") -> ")
    arrow = f") -> {result}" if result else ")"
    return f"{head}(\n    " + ",\n    ".join(_split(inside)) + f",\n{arrow}"


def _split(parameters: str) -> list[str]:
    """Cut at the commas that stand in no bracket."""
    parts, depth = [""], 0
    for character in parameters:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _text(each: griffe.Object | griffe.Alias) -> str:
    return each.docstring.value.strip() if each.docstring else ""


def _anchor(name: str) -> str:
    return name.lower()


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
