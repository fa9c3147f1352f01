"""A tab: its session, its questions, and what the commands would print."""
