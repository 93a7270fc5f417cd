"""The options of `perdure worker` that are about Temporal."""

from __future__ import annotations

import pytest

from perdure.cli.problems import UsageProblem
from perdure.cli.worker_options import as_words, given_sizes, require_version


def test_sizes_that_are_given_go_to_the_reloading_worker() -> None:
    sizes = given_sizes(max_cached_workflows=50, max_concurrent_activities=None)
    assert as_words(sizes) == ["--max-cached-workflows", "50"]


@pytest.mark.parametrize(
    ("deployment", "build_id", "reload"), [("d", None, False), (None, "1", False), ("d", "1", True)]
)
def test_a_version_that_is_none(deployment: str | None, build_id: str | None, reload: bool) -> None:
    with pytest.raises(UsageProblem, match="--deployment"):
        require_version(deployment, build_id, reload=reload)
