"""Exchanges, lifecycle and flows without I/O, and the one async driver of them: the connection."""
