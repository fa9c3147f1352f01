"""Packages for authors of agents: the entry of the registry, a Zed extension, a project for PyPI, and their checks."""
