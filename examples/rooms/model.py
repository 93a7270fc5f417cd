"""A program in the place of a model: it follows a few rules and speaks OpenAI's API."""

import json
import re
import threading

from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, says

DAY = re.compile(r"\d{4}-\d\d-\d\d")


def reply(request: ScriptedRequest) -> ScriptedReply:
    """Choose the next step from the conversation, as a model does."""
    users = [each.text for each in request.messages if each.role == "user"]
    last = request.messages[-1]
    wishes = [text for text in users if DAY.search(text)]
    if not wishes:
        return says("For which day?")
    wish, day = wishes[-1], DAY.findall(wishes[-1])[-1]
    results = [each.text for each in request.messages if each.role == "tool"]
    if last.role == "user":
        return first_step(wish, day, last.text, results)
    if last.text.startswith("["):
        free = [room for room in json.loads(last.text) if f"not {room}" not in " ".join(users)]
        return asks("book", room=free[0], day=day) if free else says("Every room is taken.")
    if "invite" in wish and "booked" in last.text:
        people = re.findall(r"[A-Z]\w+", wish.partition("invite")[2])
        return asks("invite", day=day, people=people)
    shouting = any("capitals" in text for text in users)
    return says((last.text.upper() if shouting else last.text) + ".")


def first_step(wish: str, day: str, said: str, results: list[str]) -> ScriptedReply:
    """Answer what a user says."""
    if not DAY.search(said) and results and "not " not in said:
        return says((results[-1].upper() if "capitals" in said else results[-1]) + ".")
    if "cancel" in wish.lower():
        room = next(name for name in ("Ada", "Grace", "Hedy") if name in wish)
        return asks("cancel", room=room, day=day)
    return asks("free_rooms", day=day)


if __name__ == "__main__":
    with ScriptedModel(reply, port=8500) as model:
        print(f"The model answers at {model.openai_endpoint}", flush=True)
        threading.Event().wait()
