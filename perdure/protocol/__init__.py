"""What caller, workflow and worker say to each other: names, arguments and results, without behaviour."""
