"""Mistakes of an agent's author, reported at once with the line and what to write."""
