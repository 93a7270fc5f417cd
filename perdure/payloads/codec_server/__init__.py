"""A codec server: what the Temporal UI and CLI ask, to show payloads to whoever may see them."""

TOKEN_VARIABLE = "PERDURE_CODEC_TOKEN"
"""The environment variable with the token that requests must bring."""
