"""How values travel: as JSON, compressed when large, stored elsewhere when too large."""
