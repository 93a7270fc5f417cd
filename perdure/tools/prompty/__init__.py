"""Tools of `kind: prompty`: another agent's file, whose run gives the result of the call (requirement §9.6)."""
