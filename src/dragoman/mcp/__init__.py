"""MCP servers: connections to them, what they offer, functions offered as one. The engine is the official SDK."""
