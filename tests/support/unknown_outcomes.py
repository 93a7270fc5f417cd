"""What a model reads after the text of a result whose outcome is unknown."""

from __future__ import annotations

MAY_HAVE = "\nThe call may have taken effect: that is unknown. "
FIND_OUT = f"{MAY_HAVE}Find out before you make it again, if another tool can tell."
"""Of a tool of which nobody says whether it may be repeated."""
NEEDS_APPROVAL = f"{FIND_OUT[:-1]}: exactly the same call needs a person's approval."
SAFE = f"{MAY_HAVE}To make exactly the same call again is declared to be safe."
RECONCILES = (
    f"{MAY_HAVE}To find out, make exactly the same call again: the tool then looks first whether "
    "this one was done."
)
