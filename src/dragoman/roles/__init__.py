"""What people build with: agents, clients and proxies, on top of connections."""
