"""Agents that ship with Dragoman, written with its public API."""
