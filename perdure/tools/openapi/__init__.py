"""`kind: openapi`: an HTTP API with an OpenAPI specification, each operation a function that the
model may call.
"""
