"""Translate the path of an error into the peer's dialect: `workingDirectory` for a client that never sent `cwd`.

Errors are found after lifting, so this reverses the member names. Only members that can be rejected are listed.
"""

from __future__ import annotations

import re

from dragoman.schema.side import Side

# Dialect and receiving side -> replacements, applied in order.
_REPLACEMENTS: dict[tuple[str, Side], tuple[tuple[str, str], ...]] = {
    ("draft", Side.AGENT): (
        (r"^cwd\b", "workingDirectory"),
        (r"^prompt\b", "content"),
        (r"^modeId\b", "mode"),
        (r"^configId\b", "key"),
        (r"^methodId\b", "method"),
        (r"^clientCapabilities\b", "capabilities"),
        (r"^(content\[\d+\])\.resource\.text\b", r"\1.content"),
        (r"^(content\[\d+\])\.resource\b\.?", r"\1."),
        (r"^(content\[\d+\])\.data\b", r"\1.source.data"),
        (r"^(content\[\d+\])\.mimeType\b", r"\1.source.mediaType"),
        (r"^(mcpServers\[\d+\])\.(command|args|url|headers|env)\b", r"\1.transport.\2"),
    ),
    ("2025.1", Side.AGENT): (
        (r"^sessionId\b", "session_id"),
        (r"^prompt\b", "content"),
        (r"^methodId\b", "type"),
        (r"^clientInfo\b", "client_info"),
        (r"^clientCapabilities\b", "capabilities"),
        (r"^protocolVersion\b", "protocol_version"),
        (r"^(content\[\d+\])\.resource\.text\b", r"\1.content"),
        (r"^(content\[\d+\])\.resource\b\.?", r"\1."),
        (r"^(content\[\d+\])\.mimeType\b", r"\1.format"),
    ),
    ("2025.1", Side.CLIENT): ((r"^sessionId\b", "session_id"), (r"^terminalId\b", "terminal_id")),
    ("crow", Side.AGENT): (
        (r"^sessionId\b", "session_id"),
        (r"^toolCallId\b", "tool_call_id"),
        (r"^optionId\b", "option_id"),
        (r"^clientInfo\b", "client_info"),
        (r"^clientCapabilities\b", "client_capabilities"),
        (r"^protocolVersion\b", "protocol_version"),
    ),
}


def peer_error_path(dialect: str, receiver: Side, path: str) -> str:
    """Return the path of an error in the dialect of its call."""
    for pattern, words in _REPLACEMENTS.get((dialect, receiver), ()):
        path = re.sub(pattern, words, path)
    return path.removesuffix(".")
