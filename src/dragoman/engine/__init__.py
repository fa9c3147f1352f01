"""Requests, lifecycle and flows without I/O, and the Connection that runs them on a transport."""
