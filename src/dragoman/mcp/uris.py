"""Addresses of files for MCP servers."""

from __future__ import annotations

from urllib.parse import quote


def file_uri(path: str) -> str:
    """Return the file:// address of an absolute path."""
    return f"file://{quote(path)}"
