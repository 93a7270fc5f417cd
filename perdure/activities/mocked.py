"""What answers in the place of the model, in a run that has recorded its answers."""

from __future__ import annotations

from ..protocol.activities import ModelInput
from ..providers.mocked import MockedModel
from .offered import refusal
from .run_cache import KnownRun
from .stock import lacking_mocks


def mocked_model(run: KnownRun, input: ModelInput, *, is_honoured: bool) -> MockedModel:
    """The stand-in for one call. Raises ConfigurationError when the run has fewer answers.

    Raises ApplicationError in a worker that was not started to honour them.
    """
    if not is_honoured:
        raise refusal(lacking_mocks(), input.offer)
    return MockedModel(run.mock_responses or (), input.mock, reads_calls=not input.prompted)
