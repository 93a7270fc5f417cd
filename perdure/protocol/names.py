"""The names by which Temporal knows the workflow and what may be sent to it."""

WORKFLOW = "perdure.AgentRun"
STEER = "steer"
APPROVAL = "approval"
STATUS = "status"
EVENTS = "events"
