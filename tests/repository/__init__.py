"""Tests of the package as a whole and of what surrounds it: its map, sizes, imports, packaging,
containers, docs.
"""
