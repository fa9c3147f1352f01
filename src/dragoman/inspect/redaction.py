"""A recording without secrets: what MCP servers are given, credentials, tokens, and everything that looks like one.

Works in two passes, for a secret may be repeated before or after the message that shows it to be one: `learn` from
every line, then `redact` every line. A line that holds none stays as it is, to the byte. Pure; policy/secrets knows the
shapes of secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.inspect.format import Header, RecordedLine
from dragoman.policy.redaction import REDACTED, Redactor, is_secret_name

_SECRET_MAPS = frozenset({"env", "headers"})
_CREDENTIAL_METHODS = frozenset({"authenticate", "providers/set"})
_PUBLIC_MEMBERS = frozenset({"methodId", "method", "id", "type", "name", "protocol", "baseUrl", "_meta"})

# What became of so many short texts is remembered, for looking is most of the work. Characters; texts.
_MAX_CACHED_LENGTH = 64
_MAX_CACHED = 10_000


class RecordingRedactor:
    """Learns secrets, then takes them out."""

    def __init__(self, values: list[str] | None = None) -> None:
        self._secrets: set[str] = set(values or ())
        self._redaction: Redactor | None = None
        self._text_cache: dict[str, str] = {}  # short texts, and what became of them
        self._name_cache: dict[str, bool] = {}  # whether members of that name are secrets

    def learn_secrets(self, recorded: RecordedLine) -> None:
        """Look for secrets that a message gives away by where they stand."""
        data = recorded.data
        if not any(sign in data for sign in (b'"env"', b'"headers"', b"authenticate", b"providers/set")):
            return
        message = _decode_json(data)
        if isinstance(message, dict):
            self._secrets.update(_map_values(message))
            if message.get("method") in _CREDENTIAL_METHODS:
                self._secrets.update(_credentials(message.get("params")))

    def redact(self, recorded: RecordedLine) -> RecordedLine:
        """The same line without secrets."""
        message = _decode_json(recorded.data)
        if isinstance(message, dict | list):
            clean = self._redact_value(message)
            if isinstance(clean, dict) and clean.get("method") in _CREDENTIAL_METHODS:
                clean["params"] = _mask_credentials(clean.get("params"))
            data = recorded.data if clean == message else bytes(msgspec.json.encode(clean))
        else:
            text = recorded.data.decode("utf-8", "replace")
            cleaned = self._redaction_rules.redact_text(text)
            data = recorded.data if cleaned == text else cleaned.encode()
        return recorded if data is recorded.data else msgspec.structs.replace(recorded, data=data)

    def redact_header(self, header: Header) -> Header:
        """The header without secrets in the command; it says that it was redacted."""
        return msgspec.structs.replace(
            header, command=self._redaction_rules.redact_command(header.command), redacted=True
        )

    @property
    def _redaction_rules(self) -> Redactor:
        if self._redaction is None:
            self._redaction = Redactor(self._secrets | {value.partition(" ")[2] for value in self._secrets})
        return self._redaction

    def _redact_value(self, value: Any, name: str = "") -> Any:
        if name in _SECRET_MAPS:
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
        return REDACTED if item and self._is_secret_member(name) else self._redact_text(item)

    def _redact_text(self, text: str) -> str:
        """A text without secrets; of a recording's names and short words most come again and again."""
        if len(text) > _MAX_CACHED_LENGTH:
            return self._redaction_rules.redact_text(text)
        if text not in self._text_cache:
            if len(self._text_cache) >= _MAX_CACHED:
                self._text_cache.clear()
            self._text_cache[text] = self._redaction_rules.redact_text(text)
        return self._text_cache[text]

    def _is_secret_member(self, name: str) -> bool:
        if name not in self._name_cache:
            if len(self._name_cache) >= _MAX_CACHED:
                self._name_cache.clear()
            self._name_cache[name] = is_secret_name(name)
        return self._name_cache[name]


def _decode_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _map_values(value: Any) -> Iterator[str]:
    """Values of env and headers, wherever they stand, as a list of pairs or as a map."""
    if isinstance(value, list):
        for item in value:
            yield from _map_values(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in _SECRET_MAPS:
                yield from _pair_values(item)
            else:
                yield from _map_values(item)


def _pair_values(pairs: Any) -> Iterator[str]:
    if isinstance(pairs, dict):
        yield from (item for item in pairs.values() if isinstance(item, str))
    elif isinstance(pairs, list):
        for pair in pairs:
            if isinstance(pair, dict) and isinstance(pair.get("value"), str):
                yield pair["value"]


def _mask_pairs(pairs: Any) -> Any:
    """The names without the values."""
    if isinstance(pairs, dict):
        return dict.fromkeys(pairs, REDACTED)
    if isinstance(pairs, list):
        return [{**pair, "value": REDACTED} if isinstance(pair, dict) and "value" in pair else pair for pair in pairs]
    return REDACTED if isinstance(pairs, str) else pairs


def _credentials(params: Any) -> Iterator[str]:
    if isinstance(params, str):
        yield params
    elif isinstance(params, list):
        for item in params:
            yield from _credentials(item)
    elif isinstance(params, dict):
        for name, item in params.items():
            if name not in _PUBLIC_MEMBERS:
                yield from _credentials(item)


def _mask_credentials(params: Any) -> Any:
    """What is given to sign in with, without its texts."""
    if isinstance(params, dict):
        return {name: item if name in _PUBLIC_MEMBERS else _mask_credentials(item) for name, item in params.items()}
    if isinstance(params, list):
        return [_mask_credentials(item) for item in params]
    return REDACTED if isinstance(params, str) else params
