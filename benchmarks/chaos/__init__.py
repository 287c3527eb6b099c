"""Real processes that are killed, stopped and cut off from each other, and what must hold all the same."""
