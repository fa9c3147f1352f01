"""Dragoman: the Agent Client Protocol in Python."""
