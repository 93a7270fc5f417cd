"""What a session is begun with: its prompt before anybody has said anything, its id."""

from __future__ import annotations

import pytest

from perdure import RenderError, load_dict
from perdure.agents import Agent
from perdure.client import RunOptions, session
from perdure.client.sessions.session import setup_of

QUESTION = {"name": "question", "kind": "string", "required": True}


def agent(instructions: str, *inputs: dict[str, object]) -> Agent:
    return load_dict(
        {
            "name": "tested",
            "model": {
                "id": "m",
                "provider": "openai",
                "connection": {"kind": "key", "apiKey": "${env:NO_KEY:none}"},
            },
            "inputs": list(inputs),
            "instructions": instructions,
        }
    )


def said(instructions: str, *inputs: dict[str, object], **given: object) -> list[tuple[str, str]]:
    return [
        (each.role, each.text)
        for each in setup_of(agent(instructions, *inputs), given, None).messages
    ]


def test_a_prompt_is_said_before_anything_else() -> None:
    assert said("system:\nBe short.") == [("system", "Be short.")]


@pytest.mark.parametrize(
    "question", [QUESTION, {**QUESTION, "required": False}, {**QUESTION, "default": "What?"}]
)
def test_a_last_message_that_is_an_input_stands_for_what_is_said(
    question: dict[str, object],
) -> None:
    assert said("system:\nBe short.\n\nuser:\n{{question}}\n", question) == [
        ("system", "Be short.")
    ]


def test_an_input_that_is_given_is_said_once_at_the_beginning() -> None:
    prompt = "system:\nBe short.\n\nuser:\n{{question}}"
    assert said(prompt, QUESTION, question="Hi") == [("system", "Be short."), ("user", "Hi")]


def test_other_inputs_are_rendered_beside_it() -> None:
    language = {"name": "language", "kind": "string", "required": True}
    prompt = "system:\nAnswer in {{language}}.\n\nuser:\n{{question}}"
    assert said(prompt, language, QUESTION, language="Danish") == [("system", "Answer in Danish.")]
    with pytest.raises(
        RenderError, match=r"Missing required input: language\. Give session\(…, inputs=\{…\}\)"
    ):
        said(prompt, language, QUESTION)


@pytest.mark.parametrize(
    "prompt",
    [
        "user:\nPlease: {{question}}",
        "system:\n{{question}}",
        "system:\n{{question}}\n\nuser:\n{{question}}",
    ],
)
def test_an_input_that_is_more_than_what_is_said_must_be_given(prompt: str) -> None:
    with pytest.raises(RenderError, match="Missing required input: question. Give session"):
        said(prompt, QUESTION)


def test_a_thread_is_empty_at_the_beginning() -> None:
    thread = {"name": "thread", "kind": "thread", "required": True}
    prompt = "system:\nBe short.\n\n{{thread}}\n\nuser:\n{{question}}"
    assert said(prompt, thread, QUESTION) == [("system", "Be short.")]


def test_equal_setups_have_equal_digests() -> None:
    one, same = (setup_of(agent("system:\nBe short."), None, None) for _ in range(2))
    assert one.digest == same.digest
    assert setup_of(agent("system:\nBe long."), None, None).digest != one.digest
    assert (
        setup_of(agent("system:\nBe short."), None, RunOptions(max_iterations=3)).digest
        != one.digest
    )
    assert type(one).model_validate_json(one.model_dump_json(by_alias=True)).digest == one.digest


@pytest.mark.parametrize("id", ["", "a/1", " a", "a\n", "x" * 201, "a\x00b"])
def test_what_cannot_be_the_id_of_a_session(id: str) -> None:
    with pytest.raises(ValueError, match="session id"):
        session(None, None, id)  # type: ignore[arg-type]
