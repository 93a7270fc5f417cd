"""Where decisions are made: the Temporal workflow, which binds the loop's effects to activities, signals and timers."""
