"""Remove secrets from a recording: settings of MCP servers, credentials, tokens, and what looks like one.

Works in two passes, because a secret may also occur before the message that identifies it: first `learn_secrets` from
every line, then `redact` every line. A line without secrets is unchanged.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import msgspec

from dragoman.policy.message_secrets import (
    CREDENTIAL_METHODS,
    PUBLIC_MEMBERS,
    SECRET_MAPS,
    credentials_of,
    map_values,
)
from dragoman.policy.redaction import REDACTED, Redactor, is_secret_name
from dragoman.transport.recording.format import Header, RecordedLine, parse_json

_SIGNS = (b'"env"', b'"headers"', *(name.encode() for name in CREDENTIAL_METHODS))

# Cache of redacted short strings, because the search takes most of the time: their length, and how many.
_MAX_CACHED_LENGTH = 64
_MAX_CACHED = 10_000


class RecordingRedactor:
    """Learns secrets, then removes them."""

    def __init__(self, values: list[str] | None = None) -> None:
        self._secrets: set[str] = set(values or ())
        self._redact_short = lru_cache(_MAX_CACHED)(lambda text: self._redactor.redact_text(text))
        self._is_secret_name = lru_cache(_MAX_CACHED)(is_secret_name)

    def learn_secrets(self, recorded: RecordedLine) -> None:
        """Collect the secrets that a message identifies by their position."""
        data = recorded.data
        if not any(sign in data for sign in _SIGNS):
            return
        message = parse_json(data)
        if isinstance(message, dict):
            self._secrets.update(map_values(message))
            if message.get("method") in CREDENTIAL_METHODS:
                self._secrets.update(credentials_of(message.get("params")))

    def redact(self, recorded: RecordedLine) -> RecordedLine:
        """Return the line without secrets."""
        message = parse_json(recorded.data)
        if isinstance(message, dict | list):
            clean = self._redact_value(message)
            if isinstance(clean, dict) and clean.get("method") in CREDENTIAL_METHODS:
                clean["params"] = _mask_credentials(clean.get("params"))
            data = recorded.data if clean == message else bytes(msgspec.json.encode(clean))
        else:
            text = recorded.data.decode("utf-8", "replace")
            cleaned = self._redactor.redact_text(text)
            data = recorded.data if cleaned == text else cleaned.encode()
        return recorded if data is recorded.data else msgspec.structs.replace(recorded, data=data)

    def redact_header(self, header: Header) -> Header:
        """Return the header without secrets in the command, marked as redacted."""
        return msgspec.structs.replace(header, command=self._redactor.redact_command(header.command), redacted=True)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self._secrets | {value.partition(" ")[2] for value in self._secrets})

    def _redact_value(self, value: Any, name: str = "") -> Any:
        if name in SECRET_MAPS:
            return _mask_pairs(value)
        if isinstance(value, dict):
            return {self._redact_text(key): self._redact_member(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._redact_value(item) for item in value]
        return self._redact_text(value) if isinstance(value, str) else value

    def _redact_member(self, name: str, item: Any) -> Any:
        if isinstance(item, dict | list):
            return self._redact_value(item, name)
        if not isinstance(item, str):
            return item
        return REDACTED if item and self._is_secret_name(name) else self._redact_text(item)

    def _redact_text(self, text: str) -> str:
        """Return a string without secrets; cache short ones, which repeat often."""
        return self._redact_short(text) if len(text) <= _MAX_CACHED_LENGTH else self._redactor.redact_text(text)


def _mask_pairs(pairs: Any) -> Any:
    """Replace the values, keep the names."""
    if isinstance(pairs, dict):
        return dict.fromkeys(pairs, REDACTED)
    if isinstance(pairs, list):
        return [{**pair, "value": REDACTED} if isinstance(pair, dict) and "value" in pair else pair for pair in pairs]
    return REDACTED if isinstance(pairs, str) else pairs


def _mask_credentials(params: Any) -> Any:
    """Replace all strings in credentials."""
    if isinstance(params, dict):
        return {name: item if name in PUBLIC_MEMBERS else _mask_credentials(item) for name, item in params.items()}
    if isinstance(params, list):
        return [_mask_credentials(item) for item in params]
    return REDACTED if isinstance(params, str) else params
