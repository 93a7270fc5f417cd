"""The kind of tool `delegate`: a remote agent that is handed a task, by A2A or by Chat Completions."""
