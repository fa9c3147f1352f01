"""A room: one live session with its members, its agent process, its queue and its log."""
