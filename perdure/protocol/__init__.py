"""What caller, workflow and worker say to each other: names, arguments and results. Plain models, no behaviour."""
