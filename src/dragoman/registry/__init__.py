"""Agents by one word: read the index of a registry, choose, install, lock and verify (docs/registry.md)."""
