"""How values travel through Temporal: as JSON, compressed when large, stored outside of it when too
large.
"""
