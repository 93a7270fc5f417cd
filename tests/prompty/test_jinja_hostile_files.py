"""A file or a model that means harm: escapes for the terminal, names with control characters, huge
templates.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from perdure.cli.entry import run
from perdure.errors import RenderError
from perdure.prompty.check.template import template_findings
from perdure.prompty.jinja import render_jinja

AGENT = r"""---
name: hostile
model: {id: gpt-5-mini, provider: "\e[2Jopen"}
inputs:
  - {name: topic, kind: string, "\e[31mbad": 1, "\x9b2Jworse": 1}
---
user:
Tell me of {{topic}}.
"""


def test_escapes_of_a_file_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.prompty"
    file.write_text(AGENT)
    run(["validate", str(file)])
    said = capsys.readouterr().err
    for word in ("open", r"\x1b[31mbad", r"\x9b2Jworse"):
        assert word in said
    assert all(character == "\n" or character.isprintable() for character in said)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 10**10 }}",
        "{{ [1] * 10**10 }}",
        "{{ 9**(9**9) }}",
        "{{ 'x'|center(10000000000) }}",
        "{{ 'x'.ljust(10000000000) }}",
        "{{ '%10000000000d' % 1 }}",
        "{{ '%10000000000d'|format(1) }}",
        "{{ '%.*f' % (10000000000, 1) }}",
        "{{ '{:10000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 10000000000) }}",
        "{{ ('x' * 100000)|replace('x', 'x' * 100000) }}",
        "{% set ns = namespace(x='xx') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% "
        "endfor %}",
        "{% set ns = namespace(x='xx') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in xs %}{% for b in xs %}{% for c in xs %}{% endfor %}{% endfor %}{% endfor %}",
        "{{a}} " * 2_000_000,
        "x" * 12_000_000,
    ],
    ids=range(17),
)
def test_a_template_that_would_take_all_memory_or_time_is_refused(template: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, hard))
    started = time.process_time()
    try:
        list(template_findings({"instructions": template}, 1))
        with pytest.raises(RenderError, match="Template (can't be rendered: [^M]|too large)"):
            render_jinja(template, {"xs": list(range(300))})
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert time.process_time() - started < 10


def test_what_templates_ordinarily_compute_is_rendered() -> None:
    template = (
        "{{ 'Order 12345: %d of %5.1f'|format(1000000, 2) }} {{ '{:,}'.format(1000000) }} {{ "
        "'%(a)s' % {'a': 1} }} "
        "{{ 2 * 3 ~ 'x' * 2 }} {{ 2 ** 8 + 1 }} {{ xs|join(', ') }} {{ 'a-b'|replace('-', '+') }} "
        "{{ 'a'|center(3) }}|"
        "{% for x in xs %}{{ loop.index }}{{ x }}{% else %}none{% endfor %}"
    )
    literals, values = render_jinja(template, {"xs": ["p", "q"]})
    text = "".join(literal + value for literal, value in zip(literals, [*values, ""], strict=True))
    assert text == "Order 12345: 1000000 of   2.0 1,000,000 1 6xx 257 p, q a+b  a |1p2q"
