"""The agent's tests: the real file and functions, with replies in the place of a model."""

from pathlib import Path

import pytest
from rooms import book, cancel, free_rooms, invite, letters

from perdure.testing import asks, run_in_process, says
from perdure.tool_calls import Approval

AGENT = Path(__file__).with_name("rooms.prompty")
TOOLS = [free_rooms, book, invite, cancel]


@pytest.fixture(autouse=True)
def _own_calendar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*replies, **settings):
    wish = {"question": "…"}
    return run_in_process(AGENT, inputs=wish, tools=TOOLS, model=list(replies), **settings)


def test_a_booked_room_is_no_longer_free():
    result = run(
        asks("book", room="Ada", day="2026-12-01"),
        asks("free_rooms", day="2026-12-01"),
        says("Done."),
    )
    assert [each.text for each in result.messages if each.role == "tool"] == [
        "Ada is booked for 2026-12-01",
        '["Grace","Hedy"]',
    ]


def test_nobody_gets_two_letters():
    call = asks("invite", day="2026-12-01", people=["Ann", "Ann"])
    run(call, says("Done."))
    assert letters("2026-12-01") == ["Ann"]


def test_a_booking_is_cancelled_only_if_a_person_approves():
    steps = [asks("cancel", room="Ada", day="2026-12-01"), says("Done.")]
    no, yes = Approval(approved=False, reason="Keep it."), Approval(approved=True)
    denied = run(*steps, approve=lambda request: no)
    assert "Keep it." in denied.messages[-2].text
    approved = run(*steps, approve=lambda request: yes)
    assert approved.messages[-2].text == "the booking of Ada for 2026-12-01 is cancelled"
