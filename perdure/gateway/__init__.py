"""Serves agents over HTTP, in the protocols of existing clients (`perdure docs gateway`)."""
