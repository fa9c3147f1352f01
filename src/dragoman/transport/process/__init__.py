"""Agents as child processes: start, stderr, exit status, and no process left behind."""
