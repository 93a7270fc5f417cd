"""Deterministic simulation: runs of perdure over a model of Temporal's server, from one seed."""
