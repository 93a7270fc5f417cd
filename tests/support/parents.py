"""Workflows of a user's own, inside Temporal's sandbox, whose children are runs."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from perdure import Message, load_dict, run_input
    from perdure.json_types import JsonObject


@workflow.defn
class Parent:
    """A workflow of a user's own, whose child is a run on perdure's queue."""

    @workflow.run
    async def run(self, argument: JsonObject, task_queue: str) -> Any:
        id = f"{workflow.info().workflow_id}-child"
        return await workflow.execute_child_workflow(
            "perdure.AgentRun", argument, id=id, task_queue=task_queue
        )


@workflow.defn
class Author:
    """One that makes the agent and the argument itself, inside Temporal's sandbox."""

    @workflow.run
    async def run(self, model: JsonObject, task_queue: str) -> Any:
        agent = load_dict({"name": "made", "model": model})
        argument = run_input(agent, messages=[Message.user("What is it?")])
        return await workflow.execute_child_workflow(
            "perdure.AgentRun", argument, task_queue=task_queue
        )
