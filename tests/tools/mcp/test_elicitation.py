"""The forms of MCP servers as questions to a person, and answers as the servers take them."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import types

from perdure.messages import Answered
from perdure.tools.mcp.elicitation import Elicitation, UnfitAnswer

ACCOUNT = {"type": "string", "title": "Account"}
LEVEL = {
    "type": "string",
    "oneOf": [{"const": "low", "title": "Low"}, {"const": "high", "title": "High"}],
}
ANY = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}


def form(**fields: Any) -> types.ElicitRequest:
    schema = {"type": "object", "properties": fields, "required": list(fields)[:1]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="Well?", requested_schema=schema)
    )


def asked(*requests: types.InputRequest, state: str | None = None) -> types.InputRequiredResult:
    keys = {str(number): each for number, each in enumerate(requests)}
    return types.InputRequiredResult(input_requests=keys, request_state=state)


def answer(request: types.ElicitRequest, text: str | None) -> tuple[str, Any]:
    """What the server is sent for an answer: the action and the content."""
    asking = Elicitation.of(asked(request))
    assert asking
    given = Elicitation.after(
        Answered(text=text, state=asking.as_need("MCP server 'bank'").state)
    ).given["0"]
    return given.action, given.content


@pytest.mark.parametrize(
    ("fields", "choices", "text", "content"),
    [
        ({}, ["yes", "no"], "yes", {}),
        ({"account": ACCOUNT}, [], "12", {"account": "12"}),
        ({"sure": {"type": "boolean"}}, ["yes", "no"], "no", {"sure": False}),
        ({"level": LEVEL}, ["low", "high"], "high", {"level": "high"}),
        ({"many": {"type": "integer"}}, [], "3", {"many": 3}),
        ({"rate": {"type": "number"}}, [], "0.5", {"rate": 0.5}),
        ({"any": ANY}, [], '["a", "b"]', {"any": ["a", "b"]}),
        (
            {"account": ACCOUNT, "many": {"type": "integer"}},
            [],
            '{"account": "1"}',
            {"account": "1"},
        ),
    ],
)
def test_an_answer_becomes_what_the_form_wants(
    fields: Any, choices: list[str], text: str, content: Any
) -> None:
    asking = Elicitation.of(asked(form(**fields)))
    assert asking
    needed = asking.as_need("MCP server 'bank'")
    assert needed.question.startswith("MCP server 'bank' asks: Well?")
    assert (needed.choices, needed.allow_other) == (choices, not choices)
    assert all(name in needed.question for name in fields)
    assert answer(form(**fields), text) == ("accept", content)
    assert answer(form(**fields), None) == ("decline", None)


def test_a_confirmation_is_declined_by_no() -> None:
    assert answer(form(), "no") == ("decline", None)


@pytest.mark.parametrize(
    ("fields", "text", "problem"),
    [
        ({"many": {"type": "integer"}}, "three", "'many'.* integer"),
        ({"level": LEVEL}, "medium", "level"),
        ({"account": ACCOUNT, "many": {"type": "integer"}}, "12", "expected a JSON object"),
        ({"account": ACCOUNT, "many": {"type": "integer"}}, '{"many": 1}', "account"),
        ({"account": ACCOUNT, "many": {"type": "integer"}}, '{"accounts": "1"}', "accounts"),
    ],
)
def test_an_answer_that_does_not_fit_says_why(fields: Any, text: str, problem: str) -> None:
    with pytest.raises(UnfitAnswer, match=problem):
        answer(form(**fields), text)


def test_a_url_is_opened_by_a_person() -> None:
    params = types.ElicitRequestURLParams(
        message="Log in", url="https://bank.example/in", elicitation_id="1"
    )
    asking = Elicitation.of(asked(types.ElicitRequest(params=params)))
    assert asking
    needed = asking.as_need("MCP server 'bank'")
    assert "Open https://bank.example/in (on bank.example) and answer 'done'" in needed.question
    assert answer(types.ElicitRequest(params=params), "done") == ("accept", None)


def test_what_is_no_question_to_a_person_is_not_asked() -> None:
    message = types.SamplingMessage(role="user", content=types.TextContent(text="Say hello"))
    sampling = types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=9)
    )
    assert Elicitation.of(asked(form(), sampling)) is None
    assert Elicitation.of(asked(form(), state="x" * 70_000)) is None


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)//https://bank.example",
        "file:///etc/passwd",
        "https://",
        "//x",
        "http://[",
    ],
)
def test_nobody_is_asked_to_open_what_is_no_page(url: str) -> None:
    params = types.ElicitRequestURLParams(message="Log in", url=url, elicitation_id="1")
    assert Elicitation.of(asked(types.ElicitRequest(params=params))) is None
