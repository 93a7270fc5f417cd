"""A calendar of meeting rooms in a SQLite file, and the tools that read and change it."""

import sqlite3
import time

from perdure import tool

ROOMS = ["Ada", "Grace", "Hedy"]
TABLES = """
CREATE TABLE IF NOT EXISTS bookings (day, room, PRIMARY KEY (day, room));
CREATE TABLE IF NOT EXISTS letters (day, person);
"""


def calendar() -> sqlite3.Connection:
    """Open the calendar; the first call creates it."""
    opened = sqlite3.connect("calendar.db", timeout=30)
    opened.executescript(TABLES)
    return opened


@tool
def free_rooms(day: str) -> list[str]:
    """Find the rooms that are free on a day, such as 2026-12-01."""
    with calendar() as opened:
        found = opened.execute("SELECT room FROM bookings WHERE day = ?", [day])
        taken = {room for (room,) in found}
    return [room for room in ROOMS if room not in taken]


@tool
def book(room: str, day: str) -> str:
    """Book a room for a day."""
    with calendar() as opened:
        opened.execute("INSERT OR IGNORE INTO bookings VALUES (?, ?)", [day, room])
    return f"{room} is booked for {day}"


@tool(timeout=120)
def invite(day: str, people: list[str]) -> str:
    """Send each person a letter about the booking of a day."""
    for person in people:
        with calendar() as opened:
            if person not in letters(day):
                time.sleep(1)  # as long as a mail server takes
                opened.execute("INSERT INTO letters VALUES (?, ?)", [day, person])
    return f"{len(people)} people are invited for {day}"


def letters(day: str) -> list[str]:
    """The people who got a letter, in order; one who got two is there twice."""
    with calendar() as opened:
        found = opened.execute("SELECT person FROM letters WHERE day = ?", [day])
    return [person for (person,) in found]


@tool(needs_approval=True)
def cancel(room: str, day: str) -> str:
    """Cancel the booking of a room."""
    with calendar() as opened:
        opened.execute("DELETE FROM bookings WHERE (day, room) = (?, ?)", [day, room])
    return f"the booking of {room} for {day} is cancelled"
