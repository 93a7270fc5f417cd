"""Decides how calls of a tool are executed: what its file, its function and its kind say, taken together. Pure."""

from __future__ import annotations

from ..agent import ToolPolicy
from ..errors import ConfigurationError
from ..options import MAX_SECONDS, MIN_SECONDS
from ..tool_calls import ToolSpec


def with_policy(spec: ToolSpec, policy: ToolPolicy | None, *, is_function: bool) -> ToolSpec:
    """The tool's spec with what the file says of it.

    The stricter of file and code wins, except that a file may say of a tool without code of its own that it is
    idempotent or parallel-safe after all: nobody else can know. Raises ConfigurationError for a policy that
    contradicts itself, and for numbers that can't be.
    """
    if policy is not None:
        strict = {
            "timeout": _least(spec.timeout, policy.timeout),
            "max_result": _least(spec.max_result, policy.max_result),
            "context": policy.context or 0,
            "approval_timeout": _least(spec.approval_timeout, policy.approval_timeout),
            "needs_approval": spec.needs_approval or policy.approval == "always",
            "retries": spec.retries if policy.retries is None else policy.retries,
            "local": spec.local if policy.local is None else policy.local,
            "idempotent": _both(spec.idempotent, policy.idempotent, is_function=is_function),
            "parallel_safe": _both(spec.parallel_safe, policy.parallel_safe, is_function=is_function),
        }
        spec = spec.model_copy(update=strict)
    _check_numbers(spec)
    if spec.needs_approval:
        spec = spec.model_copy(update={"approval_check": None})
    if spec.local and spec.isolated:
        raise ConfigurationError(
            f"tool {spec.name!r} is local and isolated: a local tool has no time for a process. Leave out one"
        )
    if spec.local and not spec.idempotent:
        raise ConfigurationError(
            f"tool {spec.name!r} is local and not idempotent: a local activity may be executed again after its worker "
            "was lost. Leave out one of the two"
        )
    return spec


def _check_numbers(spec: ToolSpec) -> None:
    for name in ("timeout", "approval_timeout"):
        value = getattr(spec, name)
        if value is not None and not MIN_SECONDS <= value <= MAX_SECONDS:
            text = f"expected seconds, from {MIN_SECONDS:g} to {MAX_SECONDS:,} (ten years)"
            raise ConfigurationError(f"tool {spec.name!r}: {name} is {value!r}: {text}")
    for name, least in (("retries", 0), ("max_result", 1)):
        value = getattr(spec, name)
        if value is not None and value < least:
            raise ConfigurationError(f"tool {spec.name!r}: {name} is {value!r}: expected at least {least}")


def _least(*values: float | None) -> float | None:
    given = [value for value in values if value is not None]
    return min(given, default=None)


def _both(code: bool, file: bool | None, *, is_function: bool) -> bool:
    if file is None:
        return code
    return code and file if is_function else file
