"""§4, §5: rendering."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.errors import InvokerError, RenderError
from perdure.json_types import JsonObject
from perdure.prompty.load import load_dict
from perdure.prompty.render import render


def rendered(instructions: str, inputs: JsonObject | None = None, **more: Any) -> str:
    return render(load_dict({"instructions": instructions, **more}), inputs or {})


@pytest.mark.parametrize(
    ("template", "inputs", "expected"),
    [
        pytest.param(
            "{{ a.b.c }} {{ l[1] }} {{ d['k'] }}",
            {"a": {"b": {"c": 1}}, "l": [1, 2], "d": {"k": 3}},
            "1 2 3",
            id="access",
        ),
        pytest.param("{% if a %}A{% elif b %}B{% else %}C{% endif %}", {"b": 1}, "B", id="if"),
        pytest.param(
            "Items: {% for i in l %}{{i}} {% endfor %}",
            {"l": ["a", "b", "c"]},
            "Items: a b c ",
            id="for",
        ),
        pytest.param(
            "{% for i in l "
            "%}{{loop.index}}{{loop.index0}}{{loop.first}}{{loop.last}}{{loop.length}};{% endfor "
            "%}",
            {"l": ["a", "b"]},
            "10truefalse2;21falsetrue2;",
            id="loop",
        ),
        pytest.param("a{# remark #}b", {}, "ab", id="remark"),
        pytest.param(
            "{{ s|upper }}{{ s|lower }}{{ s|trim }}{{ s|length }}",
            {"s": "aB "},
            "AB ab aB3",
            id="filters",
        ),
        pytest.param("{{ l|join(', ') }}", {"l": ["a", "b"]}, "a, b", id="join"),
        pytest.param("{{ s|default('d') }}", {}, "d", id="default of undefined"),
        pytest.param("{{ s|default('d') }}", {"s": None}, "d", id="default of null"),
        pytest.param(
            "{{ s|default('d') }}{{ n|default(1) }}",
            {"s": "", "n": 0},
            "0",
            id="no default of empty and zero",
        ),
        pytest.param("{{ s|d('d', true) }}", {"s": ""}, "d", id="default of false on demand"),
        pytest.param("a\n  {%- if true -%}  b  {%- endif -%}  \nc", {}, "abc", id="trim markers"),
        pytest.param("a {{- ' b ' -}} c", {}, "a b c", id="trim markers of values"),
        pytest.param(
            "a\n{% if true %}\nb\n{% endif %}\nc\n", {}, "a\n\nb\n\nc\n", id="whitespace is kept"
        ),
        pytest.param("[{{ x }}{{ x.y.z }}{{ x['y'] }}]", {}, "[]", id="§18-20 undefined"),
        pytest.param("{{ s }}", {"s": "<b>&\"'"}, "<b>&\"'", id="no escaping"),
        pytest.param(
            "{{ a }}{{ b }}{{ c }}",
            {"a": True, "b": False, "c": None},
            "truefalse",
            id="portable constants",
        ),
        pytest.param(
            "{{ a }} {{ b }} {{ c }} {{ 10 ** 20 * 1.0 }}",
            {"a": 1.0, "b": 1.5, "c": 30},
            "1 1.5 30 1e+20",
            id="portable numbers",
        ),
        pytest.param(
            "{{ l }} {{ d }}",
            {"l": [1, None, "é"], "d": {"b": True, "a": {}}},
            '[1, null, "é"] {"b": true, "a": {}}',
            id="portable lists and maps",
        ),
        pytest.param(
            "{% set x %}{{ n }}!{% endset %}{% if x == 'Bob!' %}{{ x|length }}{% endif %}",
            {"n": "Bob"},
            "4",
            id="set blocks",
        ),
        pytest.param(
            "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(n) }}{{ m(n)|length }}",
            {"n": "Bob"},
            "<Bob>5",
            id="macros",
        ),
        pytest.param(
            "{% filter upper %}a{{ n }}{% endfilter %}", {"n": "Bob"}, "ABOB", id="filter blocks"
        ),
        pytest.param(
            "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}{{ n }}{% endcall %}",
            {"n": "Bob"},
            "<Bob>",
            id="call blocks",
        ),
        pytest.param(
            "{% block b %}{{ n }}{% endblock %}{{ self.b() }}", {"n": "Bob"}, "BobBob", id="blocks"
        ),
        pytest.param(
            "{% for i in l recursive %}({{ i.n }}{{ loop(i.l) }}){% endfor %}",
            {"l": [{"n": 1, "l": [{"n": 2, "l": []}]}]},
            "(1(2))",
            id="recursive loops",
        ),
        pytest.param("a\r\nb", {}, "a\nb", id="line ends of the template"),
        pytest.param("{{ a }}", {"a": "x\r\ny"}, "x\r\ny", id="line ends of values"),
        pytest.param("{{ self }}{{ loop }}", {"loop": "x"}, None, id="reserved names"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_jinja(template: str, inputs: JsonObject, expected: str | None, strict: bool) -> None:
    text = rendered(template, inputs, template={"format": {"kind": "jinja2", "strict": strict}})
    assert expected is None or text == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "user:\n{{ x",
            "Template syntax error: unexpected end of template, expected 'end of print "
            "statement'. (line 2)",
        ),
        ("a\n\n{% if x %}", "(line 3)"),
        ("a\n{{ x|nope }}", "Template syntax error: No filter named 'nope'. (line 2)"),
        ("{% break %}", "Template syntax error: Encountered unknown tag 'break'. (line 1)"),
        ("{{ " + "(" * 5000, "Template syntax error: nested too deeply"),
        ("{{ 1 / a }}", "Template can't be rendered: ZeroDivisionError"),
        ("{{ x() }}", "Template can't be rendered: UndefinedError: 'x' is undefined"),
        ("{% include 'x' %}", "Template can't be rendered: TypeError: no loader"),
        ("{% for i in range(1000000) %}{% endfor %}", "OverflowError: Range too big"),
        (
            "{{ ''.__class__.__mro__ }}",
            "SecurityError: access to attribute '__class__' of a str is unsafe",
        ),
        ("{{ l.append(1) }}", "SecurityError"),
        ("{{ ''.__class__() }}", "SecurityError"),
        ("{{ '{0.__class__.__mro__}'.format(1) }}", "SecurityError"),
    ],
)
def test_wrong_templates(template: str, message: str) -> None:
    with pytest.raises(RenderError) as caught:
        rendered(template, {"a": 0, "l": []})
    assert message in str(caught.value)


def test_unknown_format() -> None:
    """§11."""
    with pytest.raises(InvokerError) as caught:
        rendered("x", template={"format": "handlebars"})
    assert str(caught.value) == "No renderer registered for key: handlebars"


@pytest.mark.parametrize("kind", ["thread", "image", "file", "audio"])
def test_rich_values_are_nonces(kind: str) -> None:
    """§18-4: 8 hexadecimal characters, fresh each time."""
    agent = load_dict({"instructions": "<{{ x }}>", "inputs": {"x": {"kind": kind}}})
    first, second = (render(agent, {"x": ["value"]}) for _ in range(2))
    assert re.fullmatch(r"<__PROMPTY_THREAD_[0-9a-f]{8}_x__>", first)
    assert first != second
    assert list(first.rich) == [first[1:-1]]
    assert list(first.rich.values()) == [["value"]]
