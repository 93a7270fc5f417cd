"""Fields of `RunOptions` as options of commands, by themselves."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from ..json_types import JsonObject, JsonView
from ..options import RunOptions
from .app import PlainCommand
from .problems import UsageProblem

BY_CODE = ("guardrails", "compactor")
"""Fields that follow from what `--guardrails` and `--compactor` load."""
SHORT_FORMS = {
    "parallel_tool_calls": "--parallel-tools",
    "max_total_tokens": "--max-tokens",
    "webhooks": "--webhook",
}
_CHOSEN = "perdure.run_options"


class CommandWithRunOptions(PlainCommand):
    """Command that has, beside its own options, one for each field of `RunOptions`.

    The model is read when the command's parameters are: `perdure --help` does without it.
    """

    fields: Collection[str] = RunOptions.model_fields

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's own parameters, then the fields'."""
        *own, help = super().get_params(ctx)
        return [*own, *(each for each in _parameters() if each.name in self.fields), help]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of options."""
        sections: dict[str, list[Any]] = {}
        for each in self.get_params(ctx):
            if record := each.get_help_record(ctx):
                title = "Arguments" if each.param_type_name == "argument" else _title(each.name)
                sections.setdefault(title, []).append(record)
        for title in sorted(sections, key=["Arguments", *_TITLES, *_OF_RUN].index):
            with formatter.section(title):
                formatter.write_dl(sections[title])


_TITLES: Mapping[str, Collection[str]] = {
    "Options": (),
    "The model": ("model", "provider", "endpoint", "scripted", "mock"),
    "Code": ("tools", "guardrails", "compactor", "credentials", "prompt_root"),
    "What is shown": ("as_json", "quiet", "yes", "log_level", "log_format", "help"),
}
_OF_RUN = ("Limits and time-outs", "How the run works")
_LIMITS = re.compile(
    r"max_.*|.*_(?:seconds|timeout|retries|grace|after)|context_budget|retries|on_limit"
)


def _title(name: str) -> str:
    """Return the heading under which help has an option."""
    if name in RunOptions.model_fields and name not in BY_CODE:
        return _OF_RUN[0 if _LIMITS.fullmatch(name) else 1]
    return next((title for title, names in _TITLES.items() if name in names), "Options")


def chosen_fields(context: typer.Context) -> JsonObject:
    """Return the fields that the command line gives, by name, as text or as values."""
    return dict(context.meta.get(_CHOSEN, {}))


def run_options(fields: JsonView, *, base: RunOptions | None = None) -> RunOptions:
    """Return the options with these fields; the others are those of `base`, or the defaults. Raises
    `UsageProblem`.
    """
    before = base.model_dump(exclude_unset=True) if base else {}
    try:
        return RunOptions.model_validate({**before, **fields})
    except ValidationError as error:
        raise UsageProblem("; ".join(_problem_text(each) for each in error.errors())) from error


def option_name(field: str) -> str:
    """Return the option for a field: `max_iterations` → `--max-iterations`."""
    return SHORT_FORMS.get(field) or f"--{field.replace('_', '-')}"


def _problem_text(error: JsonView) -> str:
    field = str(error["loc"][0]) if error["loc"] else ""
    return f"{option_name(field)} {error['input']}: {error['msg'][:1].lower()}{error['msg'][1:]}"


@cache
def _parameters() -> Sequence[Any]:
    """Return the typer parameters of a function with a parameter for each field."""
    texts = docstrings(RunOptions)

    def fields(**values: Any) -> None: ...

    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=_annotation(name, field, text),
        )
        for name, field in RunOptions.model_fields.items()
        if name not in BY_CODE
        for text in [texts.get(name, "")]
    ]
    fields.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    fields.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(fields)
    return typer.main.get_command(app).params


def docstrings(model: type) -> dict[str, str]:
    """Return the text under each field of a class, in one line and without the specification's
    section numbers.
    """
    [definition] = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        ):
            said = ast.literal_eval(text.value)
            found[field.target.id] = _for_a_terminal(" ".join(said.split()))
    return found


def _for_a_terminal(text: str) -> str:
    """Return the text with options in the place of fields, and without section numbers."""
    text = re.sub(
        r'`(\w+)(?:="(\w+)")?`',
        lambda it: " ".join([option_name(it[1]), *filter(None, [it[2]])]),
        text,
    )
    return re.sub(r"\bNone\b", "no value", re.sub(r" \(§[\d.]+\)", "", text))


def _annotation(name: str, field: FieldInfo, text: str) -> Any:
    plain: Any = field.annotation
    type_: Any = plain if _is_known(plain) else str
    default = "" if field.default in (None, False) else f" [default: {field.default}]"
    names = [option_name(name)] + ([f"--{name.replace('_', '-')}"] if name in SHORT_FORMS else [])
    declared = (
        ["/".join([names[0], f"--no-{names[0][2:]}"]), *names[1:]] if plain is bool else names
    )
    option = typer.Option(
        *declared,
        help=text + default,
        show_default=False,
        expose_value=False,
        callback=_keep,
        rich_help_panel=None,
    )
    return Annotated[type_ if _accepts_none(type_) else type_ | None, option]


def _is_known(type_: Any) -> bool:
    """Return whether the command line has this type; a value of another one is read from its text
    by the model.
    """
    parts = (
        [part for part in get_args(type_) if part is not type(None)]
        if _accepts_none(type_)
        else [type_]
    )
    return (
        all(part in (int, float, bool, str) or get_origin(part) is Literal for part in parts)
        and len(parts) == 1
    )


def _accepts_none(type_: Any) -> bool:
    return get_origin(type_) in (Union, UnionType) and type(None) in get_args(type_)


def _keep(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> None:
    if value is not None and parameter.name:
        context.meta.setdefault(_CHOSEN, {})[parameter.name] = value
