"""`perdure chat`: a conversation with an agent, in a session that outlives the terminal."""

from __future__ import annotations

import sys

from ..console import say
from ..given import Given
from ..problems import DONE, UsageProblem
from .open import IsClosed, open_session
from .pipe import lines_of_stdin, messages_of, say_all
from .talk import talk


async def chat(given: Given) -> int:
    """Talk on a terminal, or send messages and print the answers; return the exit code.

    Raises as `open_session` does, and `UsageProblem`.
    """
    if given.close and not given.session:
        raise UsageProblem("--close: expected --session with the session to close")
    try:
        return await _chat(given)
    except IsClosed:
        if not given.quiet:
            say(f"Session {given.session} is closed already.", "faint")
        return DONE


async def _chat(given: Given) -> int:
    is_piped = given.message or given.close or given.as_json
    on_terminal = not is_piped and sys.stdin.isatty() and sys.stderr.isatty()
    async with open_session(given, on_terminal=on_terminal) as found:
        if on_terminal:
            return await talk(found, on_stdout=not sys.stdout.isatty())
        has_messages = given.message or given.close
        messages = messages_of(given.message) if has_messages else lines_of_stdin()
        code = await say_all(found, messages, quiet=given.quiet, as_json=given.as_json)
        if given.close:
            await found.session.close()
        if not given.quiet:
            open_text = f"Continue the session: {found.command}"
            say(f"Session {found.id} is closed." if given.close else open_text, "faint")
        return code
