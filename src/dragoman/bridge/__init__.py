"""Bridges to other protocols: language servers (LSP)."""
