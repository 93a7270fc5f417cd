"""The agent loop of §9 and §13.7: deterministic, written once, bound to its effects from outside."""
