"""Tools for models without tool calls: the prompt describes them, and the model calls them by JSON
in its text.
"""
