"""What a remote agent has said so far in one call, and what of it is told to the next attempt."""

from __future__ import annotations

from collections.abc import Callable

from a2a.types import Message, StreamResponse, Task

from .answer import add_artifact, is_at_rest, state_name

MAX_ID = 256


class Heard:
    """The task as it stands, or the message that is the whole answer. What is new of the task is told by heartbeats."""

    def __init__(self, heartbeat: Callable[..., None]) -> None:
        self._heartbeat = heartbeat
        self.task: Task | None = None
        self.message: Message | None = None
        self.told: dict[str, str] = {}
        """The details of the last heartbeat."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be waited for: there is a message, or the task is at rest."""
        return self.message is not None or (self.task is not None and is_at_rest(self.task))

    def take(self, event: StreamResponse) -> None:
        """Take what comes; what is about another task is left out. Raises ValueError for a task without a usable id."""
        if not self._is_about_this(event):
            return
        match event.WhichOneof("payload"):
            case "message":
                self.message = event.message
            case "task":
                self.task = event.task
            case "status_update":
                update = event.status_update
                self._task(update.task_id, update.context_id).status.CopyFrom(update.status)
            case "artifact_update":
                news = event.artifact_update
                add_artifact(self._task(news.task_id, news.context_id), news)
        if self.task is not None:
            self._tell(self.task)

    def _is_about_this(self, event: StreamResponse) -> bool:
        """Whether the event is of the task that is followed; before there is one, any is."""
        ids = {event.task.id, event.status_update.task_id, event.artifact_update.task_id}
        return self.task is None or ids <= {"", self.task.id}

    def _task(self, task_id: str, context_id: str) -> Task:
        if self.task is None:
            self.task = Task(id=task_id, context_id=context_id)
        return self.task

    def _tell(self, task: Task) -> None:
        if not task.id or len(task.id) > MAX_ID or set(task.id) & set("/?#"):
            self.task = None
            raise ValueError(f"a task with the id {task.id[:80]!r}, which can't be asked for")
        told = {"state": state_name(task), "taskId": task.id, "contextId": task.context_id[:MAX_ID]}
        if told != self.told:
            self.told = told
            self._heartbeat(told)
