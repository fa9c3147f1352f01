"""State of a session built from its updates: transcript, history, tool calls. No I/O."""
