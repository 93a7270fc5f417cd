"""The agent loop of §9 and §13.7: deterministic, and written once for all who supply its effects."""
