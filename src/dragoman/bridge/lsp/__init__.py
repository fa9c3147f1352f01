"""Language servers: diagnostics after each write of an agent, and code navigation by symbol name."""
