"""Where a fault is, as the peer spelled it: `workingDirectory` to a client that never said `cwd`.

Takes the path of a fault in the vocabulary, gives it in the words of a dialect. Faults are found after lifting, so this
is the way back. Only what a call can be refused for stands here; other members keep their names.
"""

from __future__ import annotations

import re

from dragoman.schema.side import Side

# Dialect and who was called -> what is replaced, one after the other.
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
    """The path of a fault in a call, in the words of the dialect it came in."""
    for pattern, words in _REPLACEMENTS.get((dialect, receiver), ()):
        path = re.sub(pattern, words, path)
    return path.removesuffix(".")
