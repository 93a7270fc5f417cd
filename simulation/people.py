"""People and programs outside: they steer, decide, cancel, and remember what was accepted."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from temporalio.api.common.v1 import Payload

from perdure.protocol import names

from .history import Update
from .scene import Deed
from .server import NotFound

if TYPE_CHECKING:
    from .world import World


def payload(value: Any) -> Payload:
    """Return a value as any Temporal SDK sends it."""
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(value).encode())


def decoded(sent: Payload) -> Any:
    """Return the JSON value of a payload."""
    return json.loads(sent.data)


class People:
    """Everybody who talks to the run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.accepted: list[tuple[str, str]] = []
        """Steering messages that the server accepted: text and link, in their order."""
        self.refused: list[str] = []
        """Steering messages for which there was no open run any more."""
        self.decisions: dict[str, list[tuple[Update, bool]]] = {}
        """The decisions about each call, and whether they approve."""
        self.sent: dict[str, Update] = {}
        """The last update of each message to the session."""
        self.raised = 0
        self._number = 0

    def begin(self) -> None:
        """Plan what is done."""
        for deed in self.world.scene.deeds:
            self.world.later(deed.at, partial(self._do, deed))
        self._look_soon()

    def _do(self, deed: Deed) -> None:
        if deed.kind == "steer":
            self._steer(deed.text, 0)
        elif deed.kind == "send":
            self._send(deed.text, Update(deed.text, names.SEND, []), 0)
        elif deed.kind == "close":
            self._close(0)
        elif deed.kind in ("cancel", "cancel_turn"):
            try:
                self.world.server.cancel("run" if deed.kind == "cancel" else self.run_id)
            except NotFound:
                self.world.trace("people: too late to cancel")

    @property
    def run_id(self) -> str:
        """The id of the run, or of the session's last turn."""
        if not self.world.scene.is_session:
            return "run"
        return list(self.world.server.current)[-1]

    def _send(self, text: str, update: Update, tries: int) -> None:
        """Send a message to the session, again under its id if the answer does not come."""
        value = {"text": text, "id": text, "by": "ann"}
        if not tries:
            value["while_busy"] = self.world.chance.choice(["steer", "queue", "reject"])
            update.input.append(payload(value))
        try:
            self.sent[text] = self.world.server.update("run", update)
        except NotFound:
            return
        if tries < 3 and self.world.chance.happens(0.2):
            again = Update(f"{text}/{tries}", names.SEND, list(update.input))
            self.world.later(0.5, lambda: self._send_again(text, again, tries + 1))
        self.world.later(5.0, lambda: self._send_lost(text, tries + 1))

    def _send_again(self, text: str, update: Update, tries: int) -> None:
        """Send the same message by another update."""
        known = self.sent[text]
        if known.state in ("admitted", "sent", "accepted", "done"):
            try:
                self.world.server.update("run", update)
            except NotFound:
                return
            if known.state != "done":
                self.sent[text] = update if update.state == "done" else known

    def _send_lost(self, text: str, tries: int) -> None:
        """Send a message again whose update was lost with its link."""
        if self.sent[text].state in ("lost", "broken") and tries < 5:
            lost = self.sent[text]
            self._send(text, Update(f"{text}+{tries}", lost.name, list(lost.input)), tries)

    def _close(self, tries: int) -> None:
        """Close the session, until the server has taken it."""
        try:
            self.world.server.update("run", Update(f"close {tries}", names.CLOSE, []))
        except NotFound:
            return
        self.world.later(20.0, lambda: self._close(tries + 1))

    def _steer(self, text: str, tries: int) -> None:
        """Send a message, again if the answer gets lost: as the same request, or as another one."""
        is_known = any(each == text for each, _ in self.accepted)
        value = payload({"text": text, "by": "ann", "id": text})
        request = f"{text}/{tries if self.world.chance.happens(0.5) else 0}"
        try:
            execution = self.world.server.signal("run", names.STEER, [value], request)
        except NotFound:
            if not is_known:
                self.refused.append(text)
            return
        if not is_known:
            self.accepted.append((text, execution.run_id))
        if tries < 3 and self.world.chance.happens(0.15):
            self.world.later(0.3, lambda: self._steer(text, tries + 1))

    def _look_soon(self) -> None:
        self.world.later(self.world.chance.between(0.05, 3.0), self._look)

    def _look(self) -> None:
        """Look at the run's status, as people see it in a list, and do what it waits for."""
        if self.world.is_over():
            return
        chance, scene = self.world.chance, self.world.scene
        status = self.world.server.current[self.run_id].attributes.get("PerdureStatus")
        self._watch()
        asked = [id for id, (name, _) in scene.calls.items() if name == "risky"]
        if asked and (status == '"waiting"' or chance.happens(0.1)):
            self._send_decision(chance.choice(asked))
        if status == '"held"' or chance.happens(0.02):
            self._let_go_on()
        self._look_soon()

    def _watch(self) -> None:
        """Read the run's events, as a page does that shows it."""
        try:
            self.world.server.query(self.run_id, names.STATUS, [])
        except NotFound:
            return

    def _let_go_on(self) -> None:
        """Let a held run go on, with a higher limit."""
        self._number += 1
        names_ = ("max_iterations", "max_tool_calls")
        known = {name: value for name, value in self.world.scene.options.items() if name in names_}
        self.raised += 5
        value = {
            "options": {name: value + self.raised for name, value in known.items()},
            "id": f"g{self._number}",
        }
        update = Update(f"g{self._number}", names.GO_ON, [payload(value)])
        try:
            self.world.server.update(self.run_id, update)
        except NotFound:
            return
        self.world.trace(f"people: let the run go on ({update.id})")

    def _send_decision(self, call_id: str) -> None:
        chance = self.world.chance
        self._number += 1
        approves = chance.number(0, 2) > 0
        value = {"call_id": call_id, "approved": approves, "id": f"d{self._number}", "by": "bob"}
        if approves and chance.happens(self.world.scene.edits):
            value["arguments"] = {"text": "edited"}
        if chance.number(0, 4) == 0:
            update = Update(f"d{self._number}", names.APPROVAL, [payload(value)], "signal")
            try:
                self.world.server.signal(self.run_id, names.APPROVAL, update.input, update.id)
            except NotFound:
                return
        else:
            update = Update(f"d{self._number}", names.APPROVAL, [payload(value)])
            try:
                self.world.server.update(self.run_id, update)
                if chance.happens(0.2):
                    self.world.later(0.5, lambda: self._again(update))
            except NotFound:
                return
        self.decisions.setdefault(call_id, []).append((update, approves))
        self.world.trace(f"people: {'approve' if approves else 'deny'} {call_id} ({update.id})")

    def _again(self, update: Update) -> None:
        """Send the same update again, as a client does whose connection broke."""
        try:
            again = Update(update.id, update.name, update.input)
            self.world.server.update(update.run_id.partition("#")[0], again)
        except NotFound:
            return
