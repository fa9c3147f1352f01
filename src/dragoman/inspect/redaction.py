"""A recording without secrets: what MCP servers are given, credentials, tokens, and everything that looks like one.

Works in two passes, for a secret may be repeated before or after the message that shows it to be one: `learn` from
every line, then `redact` every line. A line that holds none stays as it is, to the byte. Pure; policy/secrets knows the
shapes of secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.inspect.format import Header, Recorded
from dragoman.policy.redaction import MARK, Redaction, is_secret_name

_GIVEN = frozenset({"env", "headers"})
_SIGN_IN = frozenset({"authenticate", "providers/set"})
_NO_SECRET = frozenset({"methodId", "method", "id", "type", "name", "protocol", "baseUrl", "_meta"})

# What became of so many short texts is remembered, for looking is most of the work. Characters; texts.
_SHORT = 64
_REMEMBERED = 10_000


class Cleaner:
    """Learns secrets, then takes them out."""

    def __init__(self, values: list[str] | None = None) -> None:
        self._known: set[str] = set(values or ())
        self._redaction: Redaction | None = None
        self._words: dict[str, str] = {}  # short texts, and what became of them
        self._names: dict[str, bool] = {}  # whether members of that name are secrets

    def learn(self, recorded: Recorded) -> None:
        """Look for secrets that a message gives away by where they stand."""
        data = recorded.data
        if not any(sign in data for sign in (b'"env"', b'"headers"', b"authenticate", b"providers/set")):
            return
        message = _values(data)
        if isinstance(message, dict):
            self._known.update(_given(message))
            if message.get("method") in _SIGN_IN:
                self._known.update(_credentials(message.get("params")))

    def redact(self, recorded: Recorded) -> Recorded:
        """The same line without secrets."""
        message = _values(recorded.data)
        if isinstance(message, dict | list):
            clean = self._hidden(message)
            if isinstance(clean, dict) and clean.get("method") in _SIGN_IN:
                clean["params"] = _blank(clean.get("params"))
            data = recorded.data if clean == message else bytes(msgspec.json.encode(clean))
        else:
            text = recorded.data.decode("utf-8", "replace")
            cleaned = self._rules.text(text)
            data = recorded.data if cleaned == text else cleaned.encode()
        return recorded if data is recorded.data else msgspec.structs.replace(recorded, data=data)

    def header(self, header: Header) -> Header:
        """The header without secrets in the command; it says that it was redacted."""
        return msgspec.structs.replace(header, command=self._rules.command(header.command), redacted=True)

    @property
    def _rules(self) -> Redaction:
        if self._redaction is None:
            self._redaction = Redaction(self._known | {value.partition(" ")[2] for value in self._known})
        return self._redaction

    def _hidden(self, value: Any, name: str = "") -> Any:
        if name in _GIVEN:
            return _emptied(value)
        if isinstance(value, dict):
            return {self._text(key): self._member(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._hidden(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _member(self, name: str, item: Any) -> Any:
        if isinstance(item, dict | list):
            return self._hidden(item, name)
        if not isinstance(item, str):
            return item
        return MARK if item and self._is_secret(name) else self._text(item)

    def _text(self, text: str) -> str:
        """A text without secrets; of a recording's names and short words most come again and again."""
        if len(text) > _SHORT:
            return self._rules.text(text)
        if text not in self._words:
            if len(self._words) >= _REMEMBERED:
                self._words.clear()
            self._words[text] = self._rules.text(text)
        return self._words[text]

    def _is_secret(self, name: str) -> bool:
        if name not in self._names:
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            self._names[name] = is_secret_name(name)
        return self._names[name]


def _values(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _given(value: Any) -> Iterator[str]:
    """Values of env and headers, wherever they stand, as a list of pairs or as a map."""
    if isinstance(value, list):
        for item in value:
            yield from _given(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in _GIVEN:
                yield from _texts(item)
            else:
                yield from _given(item)


def _texts(pairs: Any) -> Iterator[str]:
    if isinstance(pairs, dict):
        yield from (item for item in pairs.values() if isinstance(item, str))
    elif isinstance(pairs, list):
        for pair in pairs:
            if isinstance(pair, dict) and isinstance(pair.get("value"), str):
                yield pair["value"]


def _emptied(pairs: Any) -> Any:
    """The names without the values."""
    if isinstance(pairs, dict):
        return dict.fromkeys(pairs, MARK)
    if isinstance(pairs, list):
        return [{**pair, "value": MARK} if isinstance(pair, dict) and "value" in pair else pair for pair in pairs]
    return MARK if isinstance(pairs, str) else pairs


def _credentials(params: Any) -> Iterator[str]:
    if isinstance(params, str):
        yield params
    elif isinstance(params, list):
        for item in params:
            yield from _credentials(item)
    elif isinstance(params, dict):
        for name, item in params.items():
            if name not in _NO_SECRET:
                yield from _credentials(item)


def _blank(params: Any) -> Any:
    """What is given to sign in with, without its texts."""
    if isinstance(params, dict):
        return {name: item if name in _NO_SECRET else _blank(item) for name, item in params.items()}
    if isinstance(params, list):
        return [_blank(item) for item in params]
    return MARK if isinstance(params, str) else params
