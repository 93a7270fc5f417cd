"""A run as OpenTelemetry spans: rebuilt from its history, or exported while it runs; the same ones
either way.
"""
