"""What happened in a session: its history, its turns' tool calls. Pure folds, no I/O."""
