"""The names by which Temporal knows the workflow, its signals and its queries."""

WORKFLOW = "perdure.AgentRun"
STEER = "steer"
APPROVAL = "approval"
STATUS = "status"
EVENTS = "events"
