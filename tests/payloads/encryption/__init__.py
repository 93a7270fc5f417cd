"""Keys, and what they do to values."""
