"""Keys and signatures of gateways, and who may decide by an agent's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.cli.surroundings import further_checks
from perdure.client.sessions.session import setup_of
from perdure.conversation import ConversationRef
from perdure.declared_tools import ApprovalPolicy, ToolPolicy
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.messages import FilePart, ImagePart, Message
from perdure.prompty.check.check import check
from perdure.protocol.run import CarriedConversation, RunInput, TurnOf
from perdure.protocol.session import SessionInput, SessionMessage, SessionSetup
from perdure.protocol.signatures import NO_KEYS, Request, VouchKeys, vouch_keys, with_request
from perdure.tool_calls import ToolSpec
from perdure.tools import tool
from perdure.tools.inventory import with_policy

KEY = "A" * 43 + "="
KEYS = VouchKeys.parse(f"new:{KEY}, old:{'B' * 43}=  # the one before")


def test_all_keys_verify_and_the_first_signs() -> None:
    old = VouchKeys.parse(f"old:{'B' * 43}=")
    for keys in (KEYS, old):
        vouch = keys.sign_decision("ann", "acme", {"b", "a"}, ["run", 1])
        assert vouch.roles == ["a", "b"]
        assert KEYS.fault_in(vouch, ["run", 1], vouch.at) is None
    assert "keys are old" in str(old.fault_in(KEYS.sign_decision("ann", None, [], []), [], 0.0))
    assert "no" in str(NO_KEYS.fault_in(vouch, ["run", 1], vouch.at))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "bob"},
        {"tenant": None},
        {"roles": ["c"]},
        {"at": 1.0},
        {"signature": "\ud800"},
        {"signature": "é"},
    ],
)
def test_whatever_is_changed_the_signature_does_not_hold(change: JsonObject) -> None:
    vouch = KEYS.sign_decision("ann", "acme", ["a"], ["run", 1])
    changed = vouch.model_copy(update=change)
    assert "does not fit" in str(KEYS.fault_in(changed, ["run", 1], vouch.at))
    assert "does not fit" in str(KEYS.fault_in(vouch, ["run", 2], vouch.at))


@pytest.mark.parametrize(("seconds", "text"), [(301, "ago"), (-301, "ahead")])
def test_a_signature_counts_for_five_minutes(seconds: float, text: str) -> None:
    vouch = KEYS.sign_decision("ann", "acme", ["a"], [])
    assert text in str(KEYS.fault_in(vouch, [], vouch.at + seconds))
    assert KEYS.fault_in(vouch, [], vouch.at + seconds / 2) is None


def requested(name: str, content: str = "c", at: float = 1000.0) -> Request:
    by = KEYS.sign_request([name], "run", content, at)
    return Request(by=by, place="run", content="c", since=at - 300, until=at + 300)


def test_who_has_asked_is_known_when_all_signatures_hold() -> None:
    known = with_request(with_request([], requested("ann")), requested("bob"))
    assert KEYS.requesters(known) == {"ann", "bob"}
    assert NO_KEYS.requesters(known) is None
    assert KEYS.requesters(with_request(known, requested("carl", content="d"))) is None
    assert with_request(known, None) is None
    assert with_request(known, requested("ann")) is None  # the same once more
    large = requested("x" * 70_000)
    assert with_request(known, large) is None
    late = requested("ann").model_copy(update={"since": 1001.0})
    assert KEYS.requesters([late]) is None


def test_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_VOUCH_KEY", raising=False)
    assert vouch_keys() is NO_KEYS
    monkeypatch.setenv("PERDURE_VOUCH_KEY", f"e:{KEY}")
    assert list(vouch_keys().keys) == ["e"]
    monkeypatch.setenv("PERDURE_VOUCH_KEY", "e:QUJD")
    with pytest.raises(ConfigurationError, match="PERDURE_VOUCH_KEY, entry 1 .* has 3 bytes"):
        vouch_keys()


def test_the_stricter_of_file_and_function_counts() -> None:
    @tool(approvers={"by": ["finance", "board"]})
    def pay(euros: int) -> None:
        """Pay."""

    spec: ToolSpec = pay.__tool_spec__  # type: ignore[attr-defined]
    assert spec.needs_approval
    policy = ToolPolicy.model_validate(
        {"approval": {"by": ["board"], "count": 2, "notRequester": True}}
    )
    both = with_policy(spec, policy, is_function=True).approvers
    assert both is not None
    assert both.as_json == {
        "by": ["board"],
        "notRequester": True,
        "count": 2,
    }
    assert both.in_words() == "board, 2 people, not the requester"
    with pytest.raises(
        ConfigurationError, match="the policies share no role: it; and finance, board"
    ):
        with_policy(spec, ToolPolicy(approval=ApprovalPolicy(by=["it"])), is_function=True)
    kept = with_policy(spec, ToolPolicy(approval="never"), is_function=True)
    assert kept.approvers == spec.approvers
    assert kept.needs_approval


@pytest.mark.parametrize(
    "approvers",
    [
        {"role": "x"},
        {"by": []},
        {"by": [""]},
        {"count": 0},
        "finance",
        5,
    ],
)
def test_approvers_that_are_not_valid(approvers: Any) -> None:
    with pytest.raises(ConfigurationError, match="tool 'pay': approvers is"):
        tool(name="pay", approvers=approvers)(lambda: None)


@pytest.mark.parametrize(
    ("approval", "says"),
    [
        ("{roles: [x]}", "'roles'"),
        ("{by: []}", "`by` is empty"),
        ("{count: 0}", "greater than or equal to 1"),
        ("sometimes", "expected"),
        ("{by: [finance]}", "Calls of pay can't be decided"),
    ],
)
def test_the_file_says_what_is_wrong(
    approval: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.delenv("PERDURE_VOUCH_KEY", raising=False)
    file = tmp_path / "a.prompty"
    file.write_text(
        "---\nname: a\nmodel: gpt-4.1-mini\ntools:\n  - name: pay\n    kind: function\n"
        f"    perdure: {{approval: {approval}}}\n---\nuser:\nHi\n"
    )
    problems = check(file, also=further_checks(["pay"]))
    assert any(says in each.message for each in problems), problems


def test_all_that_a_run_does_is_signed() -> None:
    """Whoever changes one field of a run's input can't use the signature of another's."""
    agent = perdure.load_dict({"name": "desk", "model": "openai/gpt-5", "instructions": "Hi."})
    input = RunInput.model_validate(perdure.run_input(agent, messages=[]))
    other = Message.user("Refund it.")
    changes: JsonObject = {
        "messages": [other],
        "beginning": CarriedConversation(
            messages=[other],
            reference=ConversationRef(base=0, version=0, digest=""),
            run_id="1",
            ends=[],
        ),
        "options": input.options.model_copy(update={"max_iterations": 3}),
        "handed_to": "billing.prompty",
        "handoffs": {"billing.prompty": [other]},
        "session": TurnOf(session="another", turn=1),
        "deps": {"tenant": "other"},
        "given": ["max_iterations"],
        "inputs": {"question": "other"},
    }
    for name, value in changes.items():
        assert input.model_copy(update={name: value}).content != input.content, name
    own = {"requested_by", "carried", "loop_version", "search_attributes", "traceparent"}
    untried = RunInput.model_fields.keys() - changes.keys() - own - {"agent", "agents", "lineage"}
    assert not untried, "a new field is signed, too"


def test_all_that_a_session_does_is_signed() -> None:
    """Of its start, of its setup, and of each message, whose signature is for one session with one
    setup.
    """
    agent = perdure.load_dict({"name": "desk", "model": "openai/gpt-5", "instructions": "Hi."})
    other = Message.user("Refund it.")
    setup = setup_of(agent, None, None)
    of_setup: JsonObject = {
        "agent": setup.agent.model_copy(update={"name": "another"}),
        "agents": {"billing.prompty": setup.agent},
        "handoffs": {"billing.prompty": [other]},
        "messages": [other],
        "inputs": {"question": "other"},
        "deps": {"tenant": "other"},
        "options": setup.options.model_copy(update={"max_iterations": 3}),
        "given": ["max_iterations"],
    }
    assert of_setup.keys() == SessionSetup.model_fields.keys()
    changed = [setup.model_copy(update={name: value}) for name, value in of_setup.items()]
    assert len({setup.digest, *(each.digest for each in changed)}) == len(of_setup) + 1
    assert SessionSetup.model_validate_json(setup.model_dump_json()).digest == setup.digest

    start = SessionInput(setup=setup)
    of_start = {"setup": changed[0], "idle_timeout": 5.0, "user": "bob"}
    for name, value in of_start.items():
        assert start.model_copy(update={name: value}).content != start.content, name
    own = {"requested_by", "carried", "loop_version", "search_attributes"}
    assert of_start.keys() == SessionInput.model_fields.keys() - own

    message = SessionMessage(text="Hi", id="1")
    of_message = {
        "text": "Pay",
        "id": "2",
        "parts": [ImagePart(source="https://a/b")],
        "while_busy": "queue",
        "by": "ann",
        "role": "task-delegation",
        "setup_digest": setup.digest,
    }
    for name, said in of_message.items():
        assert message.model_copy(update={name: said}).content("first") != message.content(
            "first"
        ), name
    assert message.content("another") != message.content("first")
    parts = [[kind(source="https://a/b")] for kind in (ImagePart, FilePart)]
    assert len({message.model_copy(update={"parts": each}).content("first") for each in parts}) == 2
    assert of_message.keys() == SessionMessage.model_fields.keys() - {
        "setup",
        "requested_by",
        "traceparent",
    }
