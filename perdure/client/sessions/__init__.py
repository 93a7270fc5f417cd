"""Sessions: conversations with a name that live across runs, from the caller's side."""
