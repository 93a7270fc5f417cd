"""`kind: provider`: tools that the model's provider executes itself, such as a web search."""
