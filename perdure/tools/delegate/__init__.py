"""The kind of tool `delegate`: an agent elsewhere that is handed a task, by A2A or by Chat Completions."""
