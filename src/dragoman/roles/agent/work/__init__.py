"""Work of an agent that only v2 shows: its own terminals, work without a prompt, background work."""
