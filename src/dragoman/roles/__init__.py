"""Agents, clients and proxies: what a program builds with the library."""
