"""Reconnect: a client whose connection is lost comes back to its sessions."""
