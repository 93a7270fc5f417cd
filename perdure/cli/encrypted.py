"""What is said of runs whose content is encrypted with a key that this process does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..excerpt import counted
from .console import answer, say
from .session import Session

if TYPE_CHECKING:
    from temporalio.client import WorkflowExecution

    from ..payloads.encryption import EncryptionError


def key_of(run: WorkflowExecution) -> str | None:
    """The id of the key that the run's memo is encrypted with; None for one that is not encrypted by perdure."""
    from ..payloads.encryption.codec import key_id_of

    return next((id for payload in run.raw_info.memo.fields.values() if (id := key_id_of(payload))), None)


def mention_unread(keys: Sequence[str | None]) -> None:
    """Say of how many runs in a list the content can't be read, and which keys that would take."""
    for key, count in Counter(keys).items():
        why = f"encrypted (key {key}): PERDURE_ENCRYPTION_KEY lacks it here" if key else "another program made them"
        say(
            f"{counted(count, 'run')} can't be read: {why}. Their agents are what the search attributes say.",
            "faint",
        )


async def tell_encrypted(session: Session, run_id: str, error: EncryptionError, *, as_json: bool = False) -> None:
    """Print what is clear of a run that can't be decrypted, and say which key is missing."""
    run = await session.client.get_workflow_handle(run_id).describe()
    attributes = {pair.key.name: pair.value for pair in run.typed_search_attributes}
    shown: dict[str, Any] = {
        "id": run.id,
        "status": run.status.name.lower() if run.status else "",
        "encryptedWith": error.key_id,
        "started": run.start_time.isoformat(timespec="seconds"),
        "closed": run.close_time.isoformat(timespec="seconds") if run.close_time else None,
        "taskQueue": run.task_queue,
        "searchAttributes": {name: value for name, value in attributes.items() if name.startswith("Perdure")},
    }
    say(str(error), "faint")
    if as_json:
        answer(shown)
        return
    answer(f"{shown['status']}, encrypted (key {error.key_id})")
    answer(f"started {shown['started']}" + (f", ended {shown['closed']}" if run.close_time else ""))
    answer(f"task queue {run.task_queue!r}")
    for name, value in shown["searchAttributes"].items():
        answer(f"{name}: {value}")
