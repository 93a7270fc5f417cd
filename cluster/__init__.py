"""A real Temporal cluster on this machine, without containers: processes over PostgreSQL."""
