"""The options of `perdure worker` that are about Temporal."""

from __future__ import annotations

import pytest

from perdure.cli.given import Given
from perdure.cli.problems import UsageProblem
from perdure.cli.supervise import as_words
from perdure.cli.worker import require_version


def test_given_options_go_to_the_supervised_worker() -> None:
    given = {"max_cached_workflows": 50, "rate": None, "tools": ("a", "b"), "mock": True}
    assert as_words({**given, "quiet": False}) == [
        *("--max-cached-workflows", "50", "--tools", "a", "--tools", "b", "--mock")
    ]


@pytest.mark.parametrize(("deployment", "build_id"), [("d", None), (None, "1")])
def test_a_version_that_is_none(deployment: str | None, build_id: str | None) -> None:
    with pytest.raises(UsageProblem, match="--deployment"):
        require_version(Given(deployment=deployment, build_id=build_id))
