"""Any ACP agent as an MCP server."""
