"""The agent loop of §9 and §13.7: deterministic, and shared by every implementation of its
effects.
"""
