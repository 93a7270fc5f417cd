"""The Temporal workflow: it runs the loop, with activities, signals and timers as its effects."""
