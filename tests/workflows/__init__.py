"""Runs through a real dev server: workers here or in processes of their own, the model scripted over HTTP."""
