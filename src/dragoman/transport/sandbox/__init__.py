"""The sandbox of a child process: its specification, the plan, and the launcher that applies it."""
