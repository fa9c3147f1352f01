"""Reconnect: restore the sessions of a client after its connection is lost."""
