"""The storage of values that are too large for Temporal."""
