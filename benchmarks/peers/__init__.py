"""Other frameworks with a Temporal plug-in, for comparisons."""
