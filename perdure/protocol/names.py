"""The names by which Temporal knows the workflow and what may be sent to it."""

WORKFLOW = "perdure.AgentRun"
STEER = "steer"
DECIDE = "decide"
STATUS = "status"
EVENTS = "events"
