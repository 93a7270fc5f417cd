"""A worker: its cache of workflows, its activities, and what can happen to its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.workflow_commands import WorkflowCommand

from .history import Activity, Execution, Task
from .machine import Machine, Nondeterminism, TaskFailed
from .outcome import fingerprint, workflow_of

if TYPE_CHECKING:
    from .execution import Process
    from .world import World


class Worker:
    """One worker under a name. A process that has died is replaced by a new one, later."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.cache: dict[str, Machine] = {}
        self.is_alive = True
        self.is_frozen = False
        self._held: list[Callable[[], None]] = []
        """What a frozen process does when it goes on."""
        self.process: Process = world.new_process(self)

    @property
    def polls(self) -> bool:
        """Whether it takes work."""
        return self.is_alive and not self.is_frozen

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Let this process act after that time, if it lives then; a frozen one acts when it goes
        on.
        """
        process = self.process

        def due() -> None:
            if self.process is not process or not self.is_alive:
                return
            if self.is_frozen:
                self._held.append(act)
            else:
                act()

        self.world.later(seconds, due)

    # Faults

    def die(self, seconds: float) -> None:
        """End the process without a word; another one begins after that time."""
        if not self.is_alive:
            return
        self.world.trace(f"{self.name}: dies")
        self.world.faults += 1
        self.is_alive, self.is_frozen = False, False
        self._held.clear()
        self.process.die()
        for machine in self.cache.values():
            self.world.abandoned.append(machine)
        self.cache = {}
        self.world.later(seconds, self._begin_again)

    def _begin_again(self) -> None:
        self.world.trace(f"{self.name}: is there again")
        self.is_alive = True
        self.process = self.world.new_process(self)
        self.world.server.poll_again()

    def freeze(self, seconds: float) -> None:
        """Stop the process for that time."""
        if not self.polls:
            return
        self.world.trace(f"{self.name}: freezes for {seconds:.1f} s")
        self.world.faults += 1
        self.is_frozen = True
        process = self.process
        self.world.later(seconds, lambda: self._go_on(process))

    def _go_on(self, process: Process) -> None:
        if self.process is not process or not self.is_alive or not self.is_frozen:
            return
        self.world.trace(f"{self.name}: goes on")
        self.is_frozen = False
        held, self._held = self._held, []
        for act in held:
            self.later(0.0, act)
        self.world.server.poll_again()

    # Workflow tasks

    def take_task(self, execution: Execution, task: Task) -> None:
        """Process a workflow task that the server has given to this worker."""
        chance = self.world.chance
        self.later(chance.delay("delivery"), lambda: self._process(execution, task))
        if chance.happens(0.02):
            self.die(chance.between(0.1, 15.0))
        elif chance.happens(0.02):
            self.freeze(chance.between(0.5, 15.0))

    def _process(self, execution: Execution, task: Task) -> None:
        history = self.world.server.seen_by(execution, task)
        if execution.task is not task:
            return  # It was slow: the server has given the task up.
        machine = self.cache.get(execution.run_id)
        if machine is not None and machine.processed >= history[-1].id:
            machine = None  # An attempt that timed out has seen as much.
        if machine is None or self.world.chance.happens(0.03):
            self._evict(execution.run_id)
            machine = self.cache[execution.run_id] = Machine(execution)
        answer = _Answer(self, execution, task, machine)
        self.world.trace(
            f"{self.name}: {execution.run_id} workflow task of event {history[-1].id}, attempt "
            f"{task.attempt}, knows {machine.processed}"
        )
        apart = self.world.chance.happens(0.5)
        answer.guard(lambda: machine.begin(history, task.updates, apart=apart))

    def fail_task(self, answer: _Answer, error: Exception) -> None:
        """Report that the workflow code failed, and forget the workflow."""
        name = "REPLAY" if isinstance(error, Nondeterminism) else "TASKS"
        self.world.fails(name, answer.execution, str(error))
        answer.machine.answer = None
        self._evict(answer.execution.run_id)
        if answer.execution.task is answer.task:
            self.world.server.fail_task(
                answer.execution, answer.task, "task_failed", str(error)[:200]
            )

    def respond(self, answer: _Answer, *, again: bool) -> None:
        """Send the commands of a workflow task, which the network may lose or repeat."""
        chance, execution = self.world.chance, answer.execution
        answer.machine.answer = None
        commands, refused = answer.machine.finish(), dict(answer.machine.refused)
        if chance.happens(0.02):
            self.die(chance.between(0.1, 15.0))
            return
        if chance.happens(0.02):
            self.world.trace(f"{self.name}: its answer for {execution.run_id} is lost")
            self._evict(execution.run_id)
            return

        state = fingerprint(workflow_of(answer.machine)) if not again else None

        def arrive() -> None:
            started = answer.machine.processed
            is_taken = self.world.server.complete_task(
                execution, answer.task, commands, refused, again=again
            )
            if not is_taken:
                self.world.trace(f"{self.name}: its answer for {execution.run_id} is not awaited")
                self._evict(execution.run_id)
                return
            if answer.task.is_dropped:
                answer.machine.processed = answer.task.scheduled_id - 1
            elif state is not None:
                self.world.states[execution.run_id, started] = state
            if execution.is_closed:
                self._evict(execution.run_id)

        self.later(chance.delay("answer"), arrive)

    def _evict(self, run_id: str) -> None:
        if (machine := self.cache.pop(run_id, None)) is not None:
            machine.answer = None
            self.world.abandoned.append(machine)

    # Activities

    def take_activity(self, execution: Execution, activity: Activity) -> None:
        """Execute an attempt of an activity that the server has given to this worker."""
        chance, token = self.world.chance, activity.token
        if chance.happens(self.world.scene.forgets):
            self.process.forget()
        self.later(
            chance.delay("delivery"), lambda: self.process.execute(execution, activity, token)
        )
        if chance.happens(0.03):
            self.later(chance.between(0.0, 2.0), lambda: self.die(chance.between(0.1, 15.0)))
        elif chance.happens(0.03):
            self.later(chance.between(0.0, 1.0), lambda: self.freeze(chance.between(0.5, 12.0)))

    def answer_activity(
        self, execution: Execution, token: tuple[int, int], kind: str, body: Any
    ) -> None:
        """Send the end of an attempt; the network may repeat it."""
        chance = self.world.chance

        def arrive() -> None:
            is_taken = self.world.server.end_attempt(execution, token, kind, body)
            self.world.on_answer(execution, token, is_taken)

        self.later(chance.delay("answer"), arrive)
        if chance.happens(0.05):
            self.later(chance.between(0.0, 3.0), arrive)


HEARTBEAT_SHARE = 0.8
"""The share of a workflow task's time-out after which the SDK's Core answers, while local
activities go on."""


class _Answer:
    """One workflow task in this worker, until it is answered."""

    def __init__(self, worker: Worker, execution: Execution, task: Task, machine: Machine) -> None:
        self.worker = worker
        self.execution = execution
        self.task = task
        self.machine = machine
        machine.answer = self
        self._asks = False
        """Whether the workflow has queries now."""
        wait = task.started_at or 0.0
        wait += HEARTBEAT_SHARE * execution.start.task_timeout - worker.world.now()
        worker.later(max(wait, 0.0), self._keep_alive)

    @property
    def _is_current(self) -> bool:
        return self.machine.answer is self

    def _keep_alive(self) -> None:
        """Answer while local activities go on, and ask for another workflow task."""
        if self._is_current and self.machine.open_local and not self._asks:
            self.worker.respond(self, again=True)

    def guard(self, act: Callable[[], list[int]]) -> None:
        """Let the machine act; then execute its local activities, or send the answer."""
        try:
            open_ = act()
        except (TaskFailed, Nondeterminism) as error:
            self.worker.fail_task(self, error)
            return
        for seq in open_:
            if seq not in self.machine.running:
                self.machine.running.add(seq)
                self._execute(seq, self.machine.local(seq))
        if self.task.queries:
            self._ask()
        elif not open_:
            self.worker.respond(self, again=False)

    def _ask(self) -> None:
        """Pass queries on. Core takes the ends of local activities while the workflow answers."""
        queries, self.task.queries = self.task.queries, []
        self._asks = True
        self.machine.ask(queries)
        self.worker.later(self.worker.world.chance.delay("query"), self._answered)

    def _answered(self) -> None:
        """Send the answers, with what has ended meanwhile; or go on, if there are none."""
        if not self._is_current:
            return
        self._asks = False
        if self.machine.unanswered:
            self.guard(self.machine.bring_held)
        else:
            self.worker.respond(self, again=bool(self.machine.open_local) or self.machine.has_held)

    def _execute(self, seq: int, command: WorkflowCommand) -> None:
        worker, machine = self.worker, self.machine

        def end(result: ActivityResolution) -> None:
            if worker.cache.get(self.execution.run_id) is not machine:
                return
            if seq not in machine.open_local:
                return
            if machine.answer is None:
                machine.late.append((seq, result))
            else:
                machine.answer.end_local(seq, result)

        worker.process.execute_local(self.execution, command, end)

    def end_local(self, seq: int, result: ActivityResolution) -> None:
        """Pass the end of a local activity to the workflow: now, or after a query."""
        if self._asks:
            self.machine.hold_local(seq, result)
        else:
            self.guard(lambda: self.machine.resolve_local(seq, result))
