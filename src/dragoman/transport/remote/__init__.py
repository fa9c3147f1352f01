"""Frames over Streamable HTTP and WebSocket. The packages for it come with the extra `host` and are imported lazily."""
