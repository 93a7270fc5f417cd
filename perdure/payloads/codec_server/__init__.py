"""A codec server: what the Temporal UI and CLI ask, to show payloads to whoever may see them."""
