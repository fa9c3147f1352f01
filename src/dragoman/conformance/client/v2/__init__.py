"""What v2 requires of clients, one module a chapter."""
