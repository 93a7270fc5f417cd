"""Renders an agent's template with its inputs (§5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..agent import RICH_KINDS, Agent, Template
from ..errors import InvokerError
from .jinja import render_jinja
from .rendered import Rendered, join_pieces, template_markers
from .rich_values import new_nonce

Renderer = Callable[[str, Mapping[str, Any]], tuple[list[str], list[str]]]

RENDERERS: Mapping[str, Renderer] = {"jinja2": render_jinja, "nunjucks": render_jinja}
"""`template.format.kind` → the function that gives a rendering's literals and the values between them.

Nunjucks is rendered as Jinja2; `check` says where the two differ.
"""


def render(agent: Agent, inputs: Mapping[str, Any]) -> Rendered:
    """The instructions with the inputs filled in.

    Rich inputs (§2.6) never reach the template engine: nonces stand for them. In strict mode the result knows which
    role markers are the template's own, and `parse` refuses all others (§6.3). Raises RenderError, and InvokerError
    when the template's format has no renderer.
    """
    template = agent.template or Template()
    renderer = RENDERERS.get(template.format.kind)
    if renderer is None:
        raise InvokerError(f"No renderer registered for key: {template.format.kind}")
    rich = {
        new_nonce(prop.name): prop.name for prop in agent.inputs or [] if _is_rich(prop.kind, inputs.get(prop.name))
    }
    hidden = {name: nonce for nonce, name in rich.items()}
    literals, values = renderer(agent.instructions, {**inputs, **hidden})
    markers = template_markers(literals, values) if template.format.strict else None
    return Rendered(join_pieces(literals, values), {nonce: inputs[name] for nonce, name in rich.items()}, markers)


def _is_rich(kind: str, value: Any) -> bool:
    return kind in RICH_KINDS and value is not None
