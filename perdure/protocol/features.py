"""The behaviours that a run may need of its workers."""

from __future__ import annotations

LOADED_BEGINNING = "loaded-beginning"
"""A run begins with a conversation that another run's history holds (`RunInput.beginning`)."""

KNOWN_FEATURES: frozenset[str] = frozenset({LOADED_BEGINNING})
"""The names of the behaviours beyond those of version 0.1 that this version has.

A change that an older worker can't carry out, although it could read the run's input, gets a name here. Whoever starts
a run that depends on it puts the name into `RunInput.features`.
"""
