"""Serves agents over HTTP, in the protocols that programs speak (`perdure docs gateway`)."""
