"""Checks a file without running it: fields, template, references; every finding has its line."""
