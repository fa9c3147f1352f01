"""Agents that ship with Dragoman, written with the public door like anybody else's."""
