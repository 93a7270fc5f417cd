"""The activities of a run: calls of the model, executions of tools, verdicts of guardrails,
summaries of compactors.
"""
