"""Tests of what caller, workflow and worker say to each other."""
