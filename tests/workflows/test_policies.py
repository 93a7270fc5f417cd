"""How the failure of an activity is told to the user."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from perdure.workflows.policies import describe_failure


def test_an_error_without_a_text_has_its_type() -> None:
    """The SDK writes "Application error" where an exception has no text."""
    silent = ApplicationError("Application error", type="TimeoutError")
    assert describe_failure(silent) == ("TimeoutError", "TimeoutError")
    assert describe_failure(ApplicationError("no disk", type="OSError")) == ("OSError", "no disk")
