"""The behaviours that a run may need of its workers."""

from __future__ import annotations

LOADED_BEGINNING = "loaded-beginning"
"""A run begins with a conversation that another run's history holds (`RunInput.beginning`)."""

SESSION = "session"
"""A run is a turn of a session, to which it hands over what it has added to the conversation (`RunInput.session`)."""

PROMPTED_TOOLS = "prompted-tools"
"""The model is told of its tools in the prompt, and calls them by JSON in its text (`RunOptions.tool_protocol`)."""

MOCK = "mock"
"""The model's answers are recorded beforehand (`Inventory.mock_responses`)."""

KNOWN_FEATURES: frozenset[str] = frozenset({LOADED_BEGINNING, SESSION, PROMPTED_TOOLS, MOCK})
"""The names of the behaviours beyond those of version 0.1 that this version has.

A change that an older worker can't carry out, although it could read the run's input, gets a name here. Whoever starts
a run that depends on it puts the name into `RunInput.features`.
"""
