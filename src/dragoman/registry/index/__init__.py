"""The index of a registry: entries, where they come from, and search."""
