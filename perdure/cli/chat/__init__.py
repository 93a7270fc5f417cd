"""`perdure chat`: a conversation with an agent, on a terminal or in a pipe."""
