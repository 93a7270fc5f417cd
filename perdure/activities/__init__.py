"""What has effects: preparing, calling the model, running tools, judging, compacting."""
