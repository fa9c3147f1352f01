"""The proxy `redact`: replaces secrets in messages of both directions, also where a stream cuts them in two.

Secrets are the values of variables with secret names, the values that MCP servers of the session get, and what looks
like a common key. Credentials on their way to where they belong are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from dragoman.engine.codec import json_values
from dragoman.errors import Kind, ProtocolError
from dragoman.policy.redaction import MIN_SECRET_LENGTH, REDACTED, Redactor, environment_secrets, with_bearer_values
from dragoman.roles.proxy.built_in.option import ProxyOption
from dragoman.roles.proxy.functions import Passing, ProxyFunctions
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.base import encode
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

OPTIONS = (
    ProxyOption("--env", str, "a variable whose value is a secret, besides those with secret names", repeated=True),
)

_CREDENTIAL_METHODS = frozenset(row.name for row in METHODS.values() if row.has_credentials)

# Members whose values are credentials for somebody else, who needs them.
_FOR_OTHERS = frozenset({"mcpServers"})

# How the keys of common services begin.
_KEY_STARTS = (
    *(f"{kind}-" for kind in ("sk", "rk", "pk")), *(f"gh{kind}_" for kind in "pousr"), "github_pat_", "glpat-",
    "xox", "AKIA", "ASIA", "AIza", "npm_", "pypi-", "hf_", "eyJ",
)  # fmt: skip
_KEY_AT_END = re.compile(rf"\b(?:{'|'.join(map(re.escape, _KEY_STARTS))})\S*$")
_LAST_WORD = re.compile(r"[\w-]*$")

# Text that is held back until it is known whether a secret begins in it is not longer than this.
MAX_HELD = 4096


def make(env: Sequence[str] = ()) -> RedactProxy:
    """Return the proxy."""
    named = [os.environ[name] for name in env if name in os.environ]
    return RedactProxy([*environment_secrets(os.environ), *named])


class RedactProxy:
    """Redacts what passes."""

    name = "redact"
    needs_relay = False

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = list(secrets)

    def extend_relay(self, relay: Relay) -> Callable[[], Awaitable[None]]:
        """Raise: it needs no relay."""
        raise NotImplementedError

    def extend(self, functions: ProxyFunctions) -> Callable[[], Awaitable[None]]:
        """Redact everything that passes one chain."""
        redaction = _Redaction(self._secrets, functions)
        functions.rewrites.append(redaction.rewrite)
        return redaction.close


class _Redaction:
    """The secrets of one chain, and the text that is held back."""

    def __init__(self, secrets: Iterable[str], functions: ProxyFunctions) -> None:
        self._functions = functions
        self._redactor = Redactor()
        self._known: set[str] = set()
        self._held: dict[tuple[str, str], str] = {}  # by session and kind of chunk
        self._learn(secrets)

    async def close(self) -> None:
        """Forget the secrets."""
        self._known.clear()

    def rewrite(self, passing: Passing) -> bytes | None:
        """Return the message without secrets, or None if it has none."""
        if passing.method in _CREDENTIAL_METHODS:
            return None
        if passing.receiver is Side.CLIENT:
            if passing.method == "session/update":
                return self._rewrite_update(passing)
            self._flush_all()  # an answer or a question comes after the text before it
        if passing.receiver is Side.AGENT and b'"mcpServers"' in bytes(passing.raw):
            self._learn(_server_secrets(json_values(passing.raw)))
        is_write = passing.kind == "request" and passing.method == "fs/write_text_file"
        if is_write and REDACTED.encode() in bytes(passing.raw):
            raise ProtocolError(
                Kind.ACCESS_DENIED,
                f"the text has {REDACTED} in place of a secret and would overwrite it; change the file by other means",
            )
        return self._redact(passing.raw)

    def _learn(self, secrets: Iterable[str]) -> None:
        found = [value.strip() for value in secrets if len(value.strip()) >= MIN_SECRET_LENGTH]
        self._known.update(found)
        self._redactor.add_values(found)

    def _redact(self, raw: Any) -> bytes | None:
        text = bytes(raw).decode("utf-8", "surrogatepass")
        if self._redactor.redact_text(text) == text and "\\" not in text:
            return None
        values = json_values(raw)
        clean = self._clean(values)
        return None if clean == values else bytes(encode(clean))

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redactor.redact_text(value)
        if isinstance(value, list):
            return [self._clean(item) for item in value]
        if isinstance(value, dict):
            return {name: item if name in _FOR_OTHERS else self._clean(item) for name, item in value.items()}
        return value

    # --- streams ----------------------------------------------------------------------------------------------

    def _rewrite_update(self, passing: Passing) -> bytes | None:
        values = json_values(passing.raw)
        stream = _stream_of(values)
        if stream is None:
            self._flush_all()
            return self._redact(passing.raw)
        for other in [each for each in self._held if each != stream]:
            self._flush(other)
        content = values["update"]["content"]
        before = content["text"]
        text = self._held.pop(stream, "") + before
        kept = self._possible_start(text)
        if kept:
            self._held[stream] = text[len(text) - kept :]
            text = text[: len(text) - kept]
        text = self._redactor.redact_text(text)
        if text == before:
            return None
        content["text"] = text
        return bytes(encode(values))

    def _possible_start(self, text: str) -> int:
        """Return how much of the end may be the beginning of a secret."""
        end = text[-MAX_HELD:]
        found = _KEY_AT_END.search(end)
        length = len(end) - found.start() if found else 0
        last = _LAST_WORD.search(end)
        if last and last[0] and any(start.startswith(last[0]) for start in _KEY_STARTS):
            length = max(length, len(last[0]))
        for secret in self._known:
            for size in range(min(len(secret) - 1, len(text)), length, -1):
                if text.endswith(secret[:size]):
                    length = size
                    break
        return length if length < MAX_HELD else 0

    def _flush_all(self) -> None:
        for stream in list(self._held):
            self._flush(stream)

    def _flush(self, stream: tuple[str, str]) -> None:
        """Send text that was held back: nothing follows it."""
        session, kind = stream
        text = self._redactor.redact_text(self._held.pop(stream))
        update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        self._functions.notify(Side.CLIENT, "session/update", {"sessionId": session, "update": update})


def _stream_of(values: Any) -> tuple[str, str] | None:
    """Return the session and kind of a text chunk; None for any other update."""
    try:
        update = values["update"]
        if update["content"]["type"] == "text" and isinstance(update["content"]["text"], str):
            return str(values["sessionId"]), str(update["sessionUpdate"])
    except (KeyError, TypeError):
        pass
    return None


def _server_secrets(values: Any) -> list[str]:
    """Return the env and header values of MCP servers, in any form in which params have them."""
    found: list[str] = []
    servers = values.get("mcpServers") if isinstance(values, dict) else None
    for server in servers if isinstance(servers, list) else ():
        for member in ("env", "headers"):
            pairs = server.get(member) if isinstance(server, dict) else None
            if isinstance(pairs, dict):
                found += [value for value in pairs.values() if isinstance(value, str)]
            for pair in pairs if isinstance(pairs, list) else ():
                if isinstance(pair, dict) and isinstance(pair.get("value"), str):
                    found.append(pair["value"])
    return with_bearer_values(found)
