"""`perdure doctor`: what is wrong with a server, its workers and its runs, and what to type."""
