"""Tools for models that can't call any: told of in the prompt, and called by JSON in the model's text."""
