"""The activities by themselves, in Temporal's activity environment or on the dev server."""
