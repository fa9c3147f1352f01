"""The credentials that messages carry: settings of MCP servers, and the params of logins and providers.

A FrameRedactor removes them from frames one after the other, as a recording is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.policy.redaction import Redactor, with_bearer_values
from dragoman.schema.methods import METHODS

# Members whose values are credentials, as pairs or as a map.
SECRET_MAPS = frozenset({"env", "headers"})

# Methods whose params are credentials, and the members of those that are not.
CREDENTIAL_METHODS = frozenset(row.name for row in METHODS.values() if row.has_credentials)
PUBLIC_MEMBERS = frozenset({"methodId", "method", "id", "type", "name", "protocol", "baseUrl", "_meta"})

# How the dialects call the list of MCP servers, and what only 2025.1 has in an entry.
_SERVER_LISTS = frozenset({"mcpServers", "mcp_servers"})
_SERVER_SECRETS = SECRET_MAPS | {"credentials"}

_SIGNS = tuple(name.encode() for name in (*_SERVER_LISTS, *CREDENTIAL_METHODS))


def map_values(value: Any) -> Iterator[str]:
    """Yield the values of all env and headers members, lists of pairs or maps."""
    if isinstance(value, list):
        for item in value:
            yield from map_values(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in SECRET_MAPS:
                yield from _pair_values(item)
            else:
                yield from map_values(item)


def _pair_values(pairs: Any) -> Iterator[str]:
    if isinstance(pairs, dict):
        yield from (item for item in pairs.values() if isinstance(item, str))
    elif isinstance(pairs, list):
        for pair in pairs:
            if isinstance(pair, dict) and isinstance(pair.get("value"), str):
                yield pair["value"]


def credentials_of(params: Any) -> Iterator[str]:
    """Yield the strings in the params of a method that carries credentials."""
    if isinstance(params, str):
        yield params
    elif isinstance(params, list):
        for item in params:
            yield from credentials_of(item)
    elif isinstance(params, dict):
        for name, item in params.items():
            if name not in PUBLIC_MEMBERS:
                yield from credentials_of(item)


def server_secrets(value: Any) -> Iterator[str]:
    """Yield the credentials of all MCP servers in a message. Variables of other commands are not credentials."""
    if isinstance(value, list):
        for item in value:
            yield from server_secrets(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _entry_secrets(item) if name in _SERVER_LISTS else server_secrets(item)


def _entry_secrets(value: Any) -> Iterator[str]:
    items = value if isinstance(value, list) else []
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _pair_values(item) if name in _SERVER_SECRETS else _entry_secrets(item)
    for item in items:
        yield from _entry_secrets(item)


class FrameRedactor:
    """Removes the credentials that a connection carries from its frames, from the frame on that shows them first."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._redactor: Redactor | None = None

    def __call__(self, frame: bytes) -> bytes:
        """Return a frame without credentials; most pass as they are."""
        if any(sign in frame for sign in _SIGNS):
            self._learn(frame)
        if self._redactor is None:
            return frame
        text = frame.decode("utf-8", "surrogateescape")
        redacted = self._redactor.redact_known(text)
        return frame if redacted is text or redacted == text else redacted.encode("utf-8", "surrogateescape")

    def _learn(self, frame: bytes) -> None:
        try:
            message = msgspec.json.decode(frame)
        except (ValueError, RecursionError):  # msgspec errors are ValueErrors
            return
        if not isinstance(message, dict):
            return
        found = set(server_secrets(message))
        if message.get("method") in CREDENTIAL_METHODS:
            found.update(credentials_of(message.get("params")))
        if new := found - self._known:
            self._known |= new
            self._redactor = self._redactor or Redactor()
            self._redactor.add_values(with_bearer_values(new))
