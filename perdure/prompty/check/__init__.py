"""Checks a `.prompty` file without running it: its fields, references and template, each finding
with its line.
"""
