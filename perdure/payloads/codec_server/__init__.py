"""A codec server, with which the Temporal UI and CLI show payloads to people who may see them."""

TOKEN_VARIABLE = "PERDURE_CODEC_TOKEN"
"""The environment variable with the token that requests must bring."""
