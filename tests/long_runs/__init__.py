"""Runs that outlive one history: continue-as-new, large conversations, external storage."""
