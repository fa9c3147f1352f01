"""What v2 requires of agents, one module a chapter."""
