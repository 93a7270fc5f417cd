"""How values travel."""
